import { packedBytesOf } from './operand-panels.ts';
import { planTasks } from './plan-tasks.ts';
import { addressOf, alignedBytes } from '../../memory/host-address.ts';
import { createFrame } from '../../emit/products/task-layout.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';
import type { Packing, ProductKind } from '../../program/work/product-kinds.ts';

interface Sizes {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
}

/**
 * Sizes of a product with several panels on both sides, and of one with few rows. The last panels have only some of their
 * rows and columns, and the last unit of k of the first product has only some of its terms.
 */
const trials: readonly Sizes[] = [
  { rows: 17, columns: 37, depth: 19 },
  { rows: 5, columns: 37, depth: 24 },
];
const SCALE = 2;

/** All kinds of products, with the packings of their operands. */
const ways: readonly (readonly [ProductKind, Packing])[] = [
  ['f32 to f32', 'f32'],
  ['bf16 to f32', 'f32 as bf16'],
  ['bf16 to f32', 'bf16'],
  ['bf16 to bf16', 'bf16'],
];

/**
 * Computes products of each kind, with operands that lie both ways, and compares them with JavaScript's results for the
 * same numbers. Operands, sums and results are small integers, so that nothing is rounded. Returns a description of the
 * first kind that is wrong. Returns undefined if all are right.
 */
export function wrongOf(code: ProductCode): string | undefined {
  for (const sizes of trials) {
    const wrong = wrongOfSizes(code, sizes);
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

function wrongOfSizes(code: ProductCode, sizes: Sizes): string | undefined {
  const { rows, columns, depth } = sizes;
  const left = Int8Array.from({ length: rows * depth }, (_, index) => (index % 7) - 3);
  const right = Int8Array.from({ length: depth * columns }, (_, index) => (index % 5) - 2);
  const addend = Float32Array.from({ length: columns }, (_, column) => column % 3);
  const expected = Array.from({ length: rows * columns }, (_, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    let sum = 0;
    for (let k = 0; k < depth; k++) {
      sum += (left[row * depth + k] ?? NaN) * (right[k * columns + column] ?? NaN);
    }
    return SCALE * sum + (addend[column] ?? NaN);
  });
  for (const [kind, packing] of ways) {
    for (const transposes of [false, true]) {
      const [a, b] = transposes
        ? [transposed(left, rows, depth), transposed(right, depth, columns)]
        : [left, right];
      const operands = { left: stored(a, packing), right: stored(b, packing), addend, transposes };
      const made = multiply(code, kind, packing, sizes, operands);
      if (made.every((value, index) => value === expected[index])) continue;
      return `products of ${kind} are not what JavaScript makes of the same numbers`;
    }
  }
  return undefined;
}

type Elements = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** The operands of a product. `transposes` says that both lie transposed. */
interface Operands {
  readonly left: Elements;
  readonly right: Elements;
  readonly addend: Float32Array<ArrayBuffer>;
  readonly transposes: boolean;
}

function multiply(
  code: ProductCode,
  kind: ProductKind,
  packing: Packing,
  { rows, columns, depth }: Sizes,
  { left, right, addend, transposes }: Operands,
): Float32Array {
  const isNarrow = kind === 'bf16 to bf16';
  const result = isNarrow ? new Uint16Array(rows * columns) : new Float32Array(rows * columns);
  const product: MatrixProduct = {
    kind,
    leftPacking: packing,
    rightPacking: packing,
    rows,
    columns,
    depth,
    left: layout(rows, depth, transposes),
    right: layout(depth, columns, transposes),
    result: { byteOffset: 0, rowStride: columns },
    scale: SCALE,
    addend: { byteOffset: 0, rowStride: 0 },
    rounds: false,
  };
  const tasks = planTasks([product], code);
  const packed = alignedBytes(packedBytesOf([product], code));
  const frame = createFrame();
  frame.set(
    [left, right, result, addend, packed, tasks].map(({ buffer, byteOffset, byteLength }) =>
      addressOf(new Uint8Array(buffer, byteOffset, byteLength)),
    ),
  );
  code.run(frame);
  return result instanceof Uint16Array ? widened(result) : result;
}

function layout(rows: number, columns: number, transposes: boolean): MatrixProduct['left'] {
  return transposes
    ? { byteOffset: 0, rowStride: 1, columnStride: rows }
    : { byteOffset: 0, rowStride: columns, columnStride: 1 };
}

/** Shape: [rows, columns] -> [columns, rows]. */
function transposed(matrix: Int8Array, rows: number, columns: number): Int8Array {
  return matrix.map((_, index) => matrix[(index % rows) * columns + Math.floor(index / rows)] ?? 0);
}

/** Stores small integers as elements of a packing. As bf16, they are the upper half of their bits as f32. */
function stored(values: Int8Array, packing: Packing): Elements {
  const wide = Float32Array.from(values);
  if (packing !== 'bf16') return wide;
  return Uint16Array.from(new Uint32Array(wide.buffer), (bits) => bits >>> 16);
}

function widened(halves: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
}
