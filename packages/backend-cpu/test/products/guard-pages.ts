// Computes products whose operands and results end directly before, or begin directly behind, pages that nobody may
// access. Code that reads or writes one byte too many crashes this process.
import koffi from 'koffi';
import { packedBytes } from '../../src/engines/products/operand-panels.ts';
import { planTasks } from '../../src/engines/products/plan-tasks.ts';
import { guardedMemory } from '../machine-code/guarded-memory.ts';
import { codes } from './support.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import { alignedBytes } from '../../src/memory/host-address.ts';
import { createFrame } from '../../src/emit/products/task-layout.ts';
import type { Packing, ProductKind } from '../../src/program/work/product-kinds.ts';

const left = guardedMemory();
const right = guardedMemory();
const result = guardedMemory();
const addend = guardedMemory();
const packed = alignedBytes(packedBytes);

const ways: readonly (readonly [ProductKind, Packing])[] = [
  ['f32 to f32', 'f32'],
  ['bf16 to f32', 'bf16'],
  ['bf16 to f32', 'f32 as bf16'],
  ['bf16 to bf16', 'bf16'],
];
const shapes = [
  [1, 1, 1],
  [13, 31, 3],
  [14, 32, 16],
  [15, 33, 17],
  [33, 65, 47],
  [64, 33, 64],
  [15, 17, 512],
  [5, 49, 24],
] as const;

let made = 0;
for (const [set, code] of Object.entries(codes)) {
  for (const [kind, packing] of ways) {
    if (kind === 'f32 to f32' && (set === 'AMX-BF16' || set === 'AVX512-BF16')) continue;
    const bytes = packing === 'bf16' ? 2 : 4;
    const resultBytes = kind === 'bf16 to bf16' ? 2 : 4;
    for (const [rows, columns, depth] of shapes) {
      for (let choice = 0; choice < 8; choice++) {
        const [transposeLeft, transposeRight, atEnd] = [choice & 1, choice & 2, (choice & 4) > 0];
        const product: MatrixProduct = {
          kind,
          leftPacking: packing,
          rightPacking: packing,
          rows,
          columns,
          depth,
          left: {
            byteOffset: 0,
            rowStride: transposeLeft ? 1 : depth,
            columnStride: transposeLeft ? rows : 1,
          },
          right: {
            byteOffset: 0,
            rowStride: transposeRight ? 1 : columns,
            columnStride: transposeRight ? depth : 1,
          },
          result: { byteOffset: 0, rowStride: columns },
          scale: 2,
          addend: { byteOffset: 0, rowStride: 0 },
          rounds: false,
        };
        const tasks = planTasks([product], code);
        const frame = createFrame();
        frame.set([
          left(bytes * rows * depth, atEnd),
          right(bytes * depth * columns, atEnd),
          result(resultBytes * rows * columns, atEnd),
          addend(4 * columns, atEnd),
          koffi.address(packed),
          koffi.address(new Uint8Array(tasks.buffer)),
        ]);
        code.run(frame);
        made++;
      }
    }
  }
}
process.send?.(made);
