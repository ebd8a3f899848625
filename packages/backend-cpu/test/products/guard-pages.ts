// Makes products whose operands and results lie directly before pages, or directly behind pages, that nobody may touch.
// Whoever reads or writes one byte more ends this process.
import koffi from 'koffi';
import { type MatrixProduct, packedBytes, planTasks } from '../../src/products/plan-tasks.ts';
import { alignedBytes, createFrame } from '../../src/products/product-machine.ts';
import type { Packing, ProductKind } from '../../src/products/product-types.ts';
import { codes } from './support.ts';

const PAGE_BYTES = 4096;
const PROT_NONE = 0;
const PROT_READ_WRITE = 3;
const MAP_PRIVATE_ANONYMOUS = 0x22;

const library = koffi.load(null);
const mmap = library.func('mmap', 'void *', ['void *', 'size_t', 'int', 'int', 'int', 'int64_t']);
const mprotect = library.func('mprotect', 'int', ['void *', 'size_t', 'int']);

const INNER_BYTES = 16 * PAGE_BYTES;

/** Memory between two pages that nobody may touch. */
function guarded(): bigint {
  const address: unknown = mmap(
    null,
    INNER_BYTES + 2 * PAGE_BYTES,
    PROT_NONE,
    MAP_PRIVATE_ANONYMOUS,
    -1,
    0,
  );
  if (typeof address !== 'bigint') throw new Error('no memory');
  const inner = address + BigInt(PAGE_BYTES);
  if (mprotect(inner, INNER_BYTES, PROT_READ_WRITE) !== 0) throw new Error('refused');
  return inner;
}

const [left, right, result, addend] = [guarded(), guarded(), guarded(), guarded()];
const packed = alignedBytes(packedBytes);

/** Where so many bytes begin that lie at the end of the memory, or at its start. */
const placed = (memory: bigint, byteLength: number, atEnd: boolean): bigint =>
  atEnd ? memory + BigInt(INNER_BYTES - byteLength) : memory;

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
] as const;

let made = 0;
for (const [set, code] of Object.entries(codes)) {
  for (const [kind, packing] of ways) {
    if ((kind === 'f32 to f32') !== (set === 'AVX-512')) continue;
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
          placed(left, bytes * rows * depth, atEnd),
          placed(right, bytes * depth * columns, atEnd),
          placed(result, resultBytes * rows * columns, atEnd),
          placed(addend, 4 * columns, atEnd),
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
