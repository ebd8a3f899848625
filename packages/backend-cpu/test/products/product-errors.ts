import type { ProductCode } from '../../src/emit/products/product-code.ts';
import { type Case, type Elements, fromBf16, multiply, toBf16, transposed } from './support.ts';

/** Numbers from -1 to 1 that follow no pattern. */
export function numbers(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, index) => Math.sin(seed + index * 1.7));
}

/** The sums in f64, and the sums of the magnitudes of the terms. Shape: [rows, columns]. */
interface Sums {
  readonly exact: Float64Array;
  readonly magnitudes: Float64Array;
}

/** The numbers that are multiplied, as packing reads them, and their sums. Shape: a [rows, depth], b [depth, columns]. */
interface Reference extends Sums {
  readonly a: Elements;
  readonly b: Elements;
}

const references = new Map<string, Reference>();

/** Computes the reference once for all ways to multiply the same numbers. */
function referenceOf(of: Case): Reference {
  const { packing, rows, columns, depth } = of;
  const key = [packing, rows, columns, depth].join(' ');
  const known = references.get(key);
  if (known !== undefined) return known;
  const [a, b] = [numbers(rows * depth, 1), numbers(depth * columns, 2)];
  const [halfA, halfB] = [toBf16(a), toBf16(b)];
  // Operands that packing rounds and operands that are already bf16 have the same values.
  const sums = packing === 'f32' ? sumsOf(of, a, b) : sumsOf(of, fromBf16(halfA), fromBf16(halfB));
  const stored = packing === 'bf16' ? { a: halfA, b: halfB } : { a, b };
  const found = { ...sums, ...stored };
  references.set(key, found);
  return found;
}

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
  const { kind, rows, columns, depth, scale = 1 } = of;
  const { a, b, exact, magnitudes } = referenceOf(of);
  const left = of.transposeLeft === true ? transposed(a, rows, depth) : a;
  const right = of.transposeRight === true ? transposed(b, depth, columns) : b;
  const result = multiply(code, of, left, right);
  let most = 0;
  for (const [place, actual] of result.entries()) {
    const addend = of.addend?.[place % columns] ?? 0;
    const expected = scale * (exact[place] ?? NaN) + addend;
    const magnitude = Math.abs(scale) * (magnitudes[place] ?? NaN) + Math.abs(addend);
    const bound =
      (depth + 2) * 2 ** -24 * magnitude +
      (kind === 'bf16 to bf16' ? 2 ** -8 * Math.abs(expected) : 0) +
      1e-30;
    most = Math.max(most, Math.abs(actual - expected) / bound);
    if (Number.isNaN(actual)) return NaN;
  }
  return most;
}
