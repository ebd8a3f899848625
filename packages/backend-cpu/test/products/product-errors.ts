import type { ProductCode } from '../../src/emit/products/product-code.ts';
import { type Case, fromBf16, multiply, toBf16, transposed } from './support.ts';

/** Numbers from -1 to 1 that follow no pattern. */
export function numbers(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, index) => Math.sin(seed + index * 1.7));
}

/** The sums in f64, and the sums of the magnitudes of the terms. Shape: [rows, columns]. */
interface Sums {
  readonly exact: Float64Array;
  readonly magnitudes: Float64Array;
}

const sumsBySizes = new Map<string, Sums>();

/** Computes the reference for all ways to multiply the same numbers. */
function sumsOf({ rows, columns, depth }: Case, a: Float32Array, b: Float32Array): Sums {
  const [exact, magnitudes] = [0, 1].map(() => new Float64Array(rows * columns));
  if (exact === undefined || magnitudes === undefined) throw new Error('no arrays');
  for (let row = 0; row < rows; row++) {
    for (let k = 0; k < depth; k++) {
      const left = a[row * depth + k] ?? NaN;
      for (let column = 0; column < columns; column++) {
        const term = left * (b[k * columns + column] ?? NaN);
        const place = row * columns + column;
        exact[place] = (exact[place] ?? NaN) + term;
        magnitudes[place] = (magnitudes[place] ?? NaN) + Math.abs(term);
      }
    }
  }
  return { exact, magnitudes };
}

/**
 * The largest error of a product relative to the sum in f64, in units of the error that rounding may cause in a sum of
 * this length.
 */
export function furthest(code: ProductCode, of: Case): number {
  const { kind, packing, rows, columns, depth, scale = 1 } = of;
  const isWide = packing === 'f32';
  const [a, b] = [numbers(rows * depth, 1), numbers(depth * columns, 2)];
  // Operands that packing rounds and operands that are already bf16 have the same values.
  const [exactA, exactB] = isWide ? [a, b] : [fromBf16(toBf16(a)), fromBf16(toBf16(b))];
  const sizes = [isWide, rows, columns, depth].join(' ');
  const sums = sumsBySizes.get(sizes) ?? sumsOf(of, exactA, exactB);
  sumsBySizes.set(sizes, sums);
  const stored = (
    values: Float32Array<ArrayBuffer>,
  ): Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer> =>
    packing === 'bf16' ? toBf16(values) : values;
  const left = of.transposeLeft === true ? transposed(stored(a), rows, depth) : stored(a);
  const right = of.transposeRight === true ? transposed(stored(b), depth, columns) : stored(b);
  const result = multiply(code, of, left, right);
  let most = 0;
  for (const [place, actual] of result.entries()) {
    const addend = of.addend?.[place % columns] ?? 0;
    const expected = scale * (sums.exact[place] ?? NaN) + addend;
    const magnitude = Math.abs(scale) * (sums.magnitudes[place] ?? NaN) + Math.abs(addend);
    const bound =
      (depth + 2) * 2 ** -24 * magnitude +
      (kind === 'bf16 to bf16' ? 2 ** -8 * Math.abs(expected) : 0) +
      1e-30;
    most = Math.max(most, Math.abs(actual - expected) / bound);
    if (Number.isNaN(actual)) return NaN;
  }
  return most;
}
