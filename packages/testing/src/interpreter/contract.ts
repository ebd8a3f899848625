import type { Conv2dParams } from '@shardwise/core/spec';
import type { Definition, Definitions } from './definition.ts';
import { at, indices, NdArray } from './nd-array.ts';

type Contraction = 'matmul' | 'conv2d' | 'conv2dInput' | 'conv2dWeight';

/** Products and their sums are computed in f64 and rounded once. */
export const contract: Definitions<Contraction> = {
  matmul: matmulBy(sumInF64),
  conv2d: (params, y, x, w) => {
    forEachProduct(params, x, w, y, (xi, wi, yi) => addProduct(y, yi, x, xi, w, wi));
  },
  conv2dInput: (params, dx, dy, w) => {
    forEachProduct(params, dx, w, dy, (xi, wi, yi) => addProduct(dx, xi, dy, yi, w, wi));
  },
  conv2dWeight: (params, dw, x, dy) => {
    forEachProduct(params, x, dw, dy, (xi, wi, yi) => addProduct(dw, wi, x, xi, dy, yi));
  },
};

/** Computes products of bf16 as AVX512-BF16 does. Operands and sums have no denormal values. */
export const matmulOfPairs: Definition<'matmul'> = (params, out, a, b) => {
  const multiply = matmulBy(sumOfPairs);
  multiply(params, out, withoutDenormals(a), withoutDenormals(b));
};

/** Elements of an operand at equal distances. */
interface Line {
  readonly values: Float64Array;
  readonly start: number;
  readonly step: number;
}

function sumInF64(depth: number, a: Line, b: Line): number {
  let sum = 0;
  for (let k = 0; k < depth; k++) sum += termAt(k, a, b);
  return sum;
}

/**
 * Adds the second product of a pair, then the first. Each sum is rounded to f32, and becomes 0 if it is below the least
 * normal number.
 */
function sumOfPairs(depth: number, a: Line, b: Line): number {
  let sum = 0;
  for (let k = 0; k < depth; k += 2) {
    sum = roundToNormal(sum + (k + 1 < depth ? termAt(k + 1, a, b) : 0));
    sum = roundToNormal(sum + termAt(k, a, b));
  }
  return sum;
}

function termAt(k: number, a: Line, b: Line): number {
  return at(a.values, a.start + k * a.step) * at(b.values, b.start + k * b.step);
}

const MIN_NORMAL = 2 ** -126;
/** The least number that is rounded to `leastNormal`. It is halfway to the preceding number of 24 digits. */
const roundsToLeastNormal = MIN_NORMAL - 2 ** -151;

function roundToNormal(exact: number): number {
  return Math.abs(exact) < roundsToLeastNormal ? zeroLike(exact) : Math.fround(exact);
}

/** Zero with the sign of a number. */
function zeroLike(value: number): number {
  return value < 0 || Object.is(value, -0) ? -0 : 0;
}

function withoutDenormals(x: NdArray): NdArray {
  return new NdArray(
    x,
    x.values.map((value) => (Math.abs(value) < MIN_NORMAL ? zeroLike(value) : value)),
  );
}

function matmulBy(sumOf: (depth: number, a: Line, b: Line) => number): Definition<'matmul'> {
  return ({ transposeA, transposeB }, out, a, b) => {
    const [rows, columns] = [
      at(out.shape, out.shape.length - 2),
      at(out.shape, out.shape.length - 1),
    ];
    const depth = at(a.shape, a.shape.length - (transposeA ? 2 : 1));
    const [aRow, aColumn] = matrixStrides(a, transposeA);
    const [bRow, bColumn] = matrixStrides(b, transposeB);
    let next = 0;
    for (const batch of indices(out.shape.slice(0, -2))) {
      const [aStart, bStart] = [matrixStart(a, batch), matrixStart(b, batch)];
      for (let row = 0; row < rows; row++) {
        const left = { values: a.values, start: aStart + row * aRow, step: aColumn };
        for (let column = 0; column < columns; column++) {
          const right = { values: b.values, start: bStart + column * bColumn, step: bRow };
          out.values[next++] = sumOf(depth, left, right);
        }
      }
    }
  };
}

function matrixStrides(x: NdArray, transpose: boolean): [row: number, column: number] {
  const [row, column] = [at(x.strides, x.shape.length - 2), at(x.strides, x.shape.length - 1)];
  return transpose ? [column, row] : [row, column];
}

/** Returns where the matrix of a broadcast batch index starts in x. */
function matrixStart(x: NdArray, batch: readonly number[]): number {
  const own = batch.slice(batch.length - (x.shape.length - 2));
  return own.reduce(
    (start, i, dim) => start + (x.shape[dim] === 1 ? 0 : i * at(x.strides, dim)),
    0,
  );
}

function addProduct(out: NdArray, i: number, a: NdArray, j: number, b: NdArray, k: number): void {
  out.values[i] = at(out.values, i) + at(a.values, j) * at(b.values, k);
}

/**
 * Visits the offsets of the elements of x, w and y that belong together in y = conv2d(x, w). y is the sum of products x
 * * w, and each gradient is the sum of the products of the other two.
 */
function forEachProduct(
  { stride, padding, dilation, groups }: Conv2dParams,
  x: NdArray,
  w: NdArray,
  y: NdArray,
  visit: (x: number, w: number, y: number) => void,
): void {
  const [, , height, width] = x.shape;
  const [outputs = 0, channels = 0, kernelHeight = 0, kernelWidth = 0] = w.shape;
  let yOffset = 0;
  for (const [n = 0, o = 0, i = 0, j = 0] of y.indices()) {
    const group = Math.floor(o / (outputs / groups));
    let wOffset = o * channels * kernelHeight * kernelWidth;
    for (const [c = 0, r = 0, s = 0] of indices([channels, kernelHeight, kernelWidth])) {
      const row = i * stride[0] - padding[0] + r * dilation[0];
      const column = j * stride[1] - padding[1] + s * dilation[1];
      if (row >= 0 && row < (height ?? 0) && column >= 0 && column < (width ?? 0)) {
        const start = n * at(x.strides, 0) + (group * channels + c) * at(x.strides, 1);
        visit(start + row * at(x.strides, 2) + column, wOffset, yOffset);
      }
      wOffset++;
    }
    yOffset++;
  }
}
