import { packedBytesOf } from '../../src/engines/products/operand-panels.ts';
import { planTasks } from '../../src/engines/products/plan-tasks.ts';
import { type ProductMachine, productMachine } from '../../src/engines/products/product-machine.ts';
import { type InstructionSet, instructionSets } from '../../src/emit/x64/instruction-sets.ts';
import { type ProcessorFeatures, processorFeatures, upTo } from '../../src/emit/x64/processor.ts';
import { createProductCode } from '../../src/emit/x64/products/product-code.ts';
import { addressOf, alignedBytes } from '../../src/memory/host-address.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import { createFrame } from '../../src/emit/products/task-layout.ts';
import type { ProductCode } from '../../src/emit/products/product-code.ts';
import type { Packing, ProductKind } from '../../src/program/work/product-kinds.ts';

export type Elements = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

export function toBf16(values: Float32Array): Uint16Array<ArrayBuffer> {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(bits.length);
  bits.forEach((word, index) => {
    halves[index] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
  return halves;
}

export function fromBf16(values: Uint16Array): Float32Array<ArrayBuffer> {
  return new Float32Array(Uint32Array.from(values, (half) => half << 16).buffer);
}

/** The product machine of this processor. Tests that need machine code run only if the processor has it. */
export const machine = productMachine();

/** What products are tested with: sets of instructions of x64, or those of AArch64. */
export type TestedSet = InstructionSet | 'NEON and BFMMLA';

/** The code for this processor, and for the same processor without its newer instructions. */
export const codes: Readonly<Partial<Record<TestedSet, ProductCode>>> = codesOf(machine);

function codesOf(of: ProductMachine): Partial<Record<TestedSet, ProductCode>> {
  if (of.kind === 'none') return {};
  if (of.instructions.bf16 === 'BFMMLA') return { 'NEON and BFMMLA': of.code };
  return codesOfFeatures(processorFeatures());
}

function codesOfFeatures(
  features: ProcessorFeatures,
): Partial<Record<InstructionSet, ProductCode>> {
  const hasSet = {
    'AMX-BF16': features.tiles,
    'AVX512-BF16': features.bf16,
    'AVX-512': features.vectors === 'AVX-512',
    AVX2: true,
  };
  return Object.fromEntries(
    instructionSets
      .filter((set) => hasSet[set])
      .map((set) => [set, createProductCode(upTo(set, features))]),
  );
}

let packed = alignedBytes(0);

export interface Case {
  readonly kind: ProductKind;
  readonly packing: Packing;
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly transposeLeft?: boolean;
  readonly transposeRight?: boolean;
  readonly scale?: number;
  /** Shape: [columns]. */
  readonly addend?: Float32Array<ArrayBuffer>;
  readonly rounds?: boolean;
}

/**
 * Computes the product with this code. Shape: left [rows, depth], right [depth, columns]. Either may be transposed in
 * memory.
 */
export function multiply(
  code: ProductCode,
  of: Case,
  left: Elements,
  right: Elements,
): Float32Array {
  const { kind, packing, rows, columns, depth, addend } = of;
  const result =
    kind === 'bf16 to bf16' ? new Uint16Array(rows * columns) : new Float32Array(rows * columns);
  const product: MatrixProduct = {
    kind,
    leftPacking: packing,
    rightPacking: packing,
    rows,
    columns,
    depth,
    left: {
      byteOffset: 0,
      rowStride: of.transposeLeft === true ? 1 : depth,
      columnStride: of.transposeLeft === true ? rows : 1,
    },
    right: {
      byteOffset: 0,
      rowStride: of.transposeRight === true ? 1 : columns,
      columnStride: of.transposeRight === true ? depth : 1,
    },
    result: { byteOffset: 0, rowStride: columns },
    scale: of.scale ?? 1,
    addend: addend === undefined ? null : { byteOffset: 0, rowStride: 0 },
    rounds: of.rounds ?? false,
  };
  const tasks = planTasks([product], code);
  const packedBytes = packedBytesOf([product], code);
  if (packed.byteLength < packedBytes) packed = alignedBytes(packedBytes);
  const places = [left, right, result, addend ?? result, packed, tasks];
  const frame = createFrame();
  frame.set(
    places.map(({ buffer, byteOffset, byteLength }) =>
      addressOf(new Uint8Array(buffer, byteOffset, byteLength)),
    ),
  );
  code.run(frame);
  return result instanceof Uint16Array ? fromBf16(result) : result;
}

/** Returns the elements of a matrix in the memory order of its transpose. Shape: [rows, columns] -> [columns, rows]. */
export function transposed<T extends Elements>(matrix: T, rows: number, columns: number): T {
  const result = matrix.slice();
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      result[column * rows + row] = matrix[row * columns + column] ?? 0;
    }
  }
  return result as T;
}
