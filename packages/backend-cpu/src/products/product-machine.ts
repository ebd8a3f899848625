import { addressOf } from '../onnx/runtime/api.ts';
import { type ProcessorFeatures, processorFeatures } from '../machine-code/processor.ts';
import { operandNames } from './task-layout.ts';
import { type MatrixProduct, packedBytes, planTasks } from './plan-tasks.ts';
import { createProductCode, type ProductCode } from './product-code.ts';
import type { ProductKind } from './product-types.ts';

/** How this thread makes products of matrices: by machine code of ours, or not, and why. */
export type ProductMachine =
  | { readonly kind: 'own'; readonly code: ProductCode; readonly bf16: boolean }
  | { readonly kind: 'none'; readonly reason: string };

let known: ProductMachine | undefined;

/** Found out once for each thread. */
export function productMachine(): ProductMachine {
  known ??= findMachine();
  return known;
}

function findMachine(): ProductMachine {
  let reason = '';
  try {
    const features = processorFeatures();
    // What does not compute as it should is left out.
    for (const tried of [
      features,
      { ...features, tiles: false },
      { ...features, tiles: false, bf16: false },
    ]) {
      const code = createProductCode(tried);
      const wrong = kindsOf(tried).find((kind) => !isRight(kind, code));
      if (wrong === undefined) return { kind: 'own', code, bf16: tried.bf16 };
      reason = `products of ${wrong} failed their test`;
    }
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error);
  }
  return { kind: 'none', reason };
}

function kindsOf({ bf16 }: ProcessorFeatures): readonly ProductKind[] {
  return bf16 ? ['f32 to f32', 'bf16 to f32'] : ['f32 to f32'];
}

/** Bytes that begin at a cache line, and stay where they are. */
export function alignedBytes(byteLength: number): Uint8Array {
  const lineBytes = 64;
  const bytes = new Uint8Array(new ArrayBuffer(byteLength + lineBytes));
  const start = (lineBytes - Number(addressOf(bytes) % BigInt(lineBytes))) % lineBytes;
  return bytes.subarray(start, start + byteLength);
}

/** Where the operands of tasks lie. */
export type Frame = BigUint64Array;

export function createFrame(): Frame {
  return new BigUint64Array(new ArrayBuffer(8 * operandNames.length));
}

const sizes = { rows: 17, columns: 37, depth: 19 };

/** Whether the machine computes what JavaScript does. Values that are rounded to bf16 as they are packed are small integers. */
function isRight(kind: ProductKind, code: ProductCode): boolean {
  const { rows, columns, depth } = sizes;
  const left = Float32Array.from({ length: rows * depth }, (_, index) => (index % 7) - 3);
  const right = Float32Array.from({ length: depth * columns }, (_, index) => (index % 5) - 2);
  const result = new Float32Array(rows * columns);
  const packing = kind === 'f32 to f32' ? 'f32' : 'f32 as bf16';
  const product: MatrixProduct = {
    kind,
    leftPacking: packing,
    rightPacking: packing,
    rows,
    columns,
    depth,
    left: { byteOffset: 0, rowStride: depth, columnStride: 1 },
    right: { byteOffset: 0, rowStride: columns, columnStride: 1 },
    result: { byteOffset: 0, rowStride: columns },
    scale: 1,
    addend: null,
  };
  const tasks = planTasks([product], code);
  const packed = alignedBytes(packedBytes);
  const places = [left, right, result, result, packed, tasks].map(
    ({ buffer, byteOffset, byteLength }) =>
      addressOf(new Uint8Array(buffer, byteOffset, byteLength)),
  );
  const frame = createFrame();
  frame.set(places);
  code.run(frame);
  // Sums of small integers are exact.
  return result.every((value, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    let sum = 0;
    for (let k = 0; k < depth; k++) {
      sum += (left[row * depth + k] ?? NaN) * (right[k * columns + column] ?? NaN);
    }
    return value === sum;
  });
}
