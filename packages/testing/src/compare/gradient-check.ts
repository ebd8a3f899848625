import { randomBits } from '../interpreter/leaves.ts';
import { assertAllclose } from './allclose.ts';
import type { Tolerance } from './allclose.ts';

/** Values in f32 or f64. */
export type FloatArray = Float32Array | Float64Array;

/** A function of several arrays with a scalar result. It must not keep or change the arrays. */
export type ScalarFunction = (inputs: readonly FloatArray[]) => Promise<number>;

/** Options of `checkGradients`. */
export interface GradientCheckOptions extends Tolerance {
  /** The distance of the sample points. Default: 2^-5 if an input is f32, otherwise 2^-9. */
  readonly step?: number;
  /** The number of random directions that are compared. Default: 4. */
  readonly directions?: number;
  /** Inputs with at most this many elements are also compared element by element. Default: 64. */
  readonly elementwiseLimit?: number;
  readonly seed?: number;
}

/**
 * Returns the derivative of t -> f(inputs + t * direction) at 0, by central differences of fourth order. The error is
 * O(step^4) from the fifth derivative of f, plus the rounding of f / step. Sums are computed in f64. The inputs are
 * rounded to their own type, so a step should be a power of two.
 */
export async function finiteDifference(
  f: ScalarFunction,
  inputs: readonly FloatArray[],
  direction: readonly ArrayLike<number>[],
  step: number = defaultStep(inputs),
): Promise<number> {
  const sample = (t: number): Promise<number> =>
    f(
      inputs.map((input, i) => {
        const along = direction[i];
        return input.map((x, j) => x + t * (along?.[j] ?? 0));
      }),
    );
  const near = (await sample(step)) - (await sample(-step));
  const far = (await sample(2 * step)) - (await sample(-2 * step));
  return (8 * near - far) / (12 * step);
}

/**
 * Throws if `gradients` are not the derivatives of f. It compares random directions of signs, and small inputs
 * element by element. f must be smooth within two steps of the inputs. Default tolerance: rtol 1e-3, atol 1e-3.
 * Shape: each gradient has the length of its input.
 */
export async function checkGradients(
  f: ScalarFunction,
  inputs: readonly FloatArray[],
  gradients: readonly ArrayLike<number>[],
  options: GradientCheckOptions = {},
): Promise<void> {
  const { directions = 4, elementwiseLimit = 64, seed = 0 } = options;
  const { rtol = 1e-3, atol = 1e-3, step = defaultStep(inputs) } = options;
  checkLengths(inputs, gradients);
  for (let n = 0; n < directions; n++) {
    const direction = inputs.map((input, i) =>
      Array.from(input, (_, j) => (randomBits(seed, n * inputs.length + i, j) < 0 ? -1 : 1)),
    );
    const analytic = dot(gradients, direction);
    const numeric = await finiteDifference(f, inputs, direction, step);
    compare(`the derivative in random direction ${n}`, [analytic], [numeric], { rtol, atol });
  }
  for (const [i, input] of inputs.entries()) {
    if (input.length > elementwiseLimit) continue;
    const numeric: number[] = [];
    for (let j = 0; j < input.length; j++) {
      const direction = inputs.map((other, k) =>
        Array.from(other, (_, l) => Number(k === i && l === j)),
      );
      numeric.push(await finiteDifference(f, inputs, direction, step));
    }
    compare(`the gradient of input ${i}`, gradients[i] ?? [], numeric, { rtol, atol });
  }
}

function compare(
  what: string,
  analytic: ArrayLike<number>,
  numeric: ArrayLike<number>,
  tolerance: Tolerance,
): void {
  try {
    assertAllclose(analytic, numeric, tolerance);
  } catch (error) {
    throw new Error(`${what} is not that of finite differences`, { cause: error });
  }
}

function dot(a: readonly ArrayLike<number>[], b: readonly ArrayLike<number>[]): number {
  let sum = 0;
  for (const [i, values] of a.entries()) {
    for (let j = 0; j < values.length; j++) sum += (values[j] ?? 0) * (b[i]?.[j] ?? 0);
  }
  return sum;
}

function defaultStep(inputs: readonly FloatArray[]): number {
  return inputs.some((input) => input instanceof Float32Array) ? 2 ** -5 : 2 ** -9;
}

function checkLengths(
  inputs: readonly FloatArray[],
  gradients: readonly ArrayLike<number>[],
): void {
  const [asked, found] = [
    gradients.map(({ length }) => length),
    inputs.map(({ length }) => length),
  ];
  if (asked.join() !== found.join()) {
    throw new Error(`gradients of lengths ${asked.join()} for inputs of lengths ${found.join()}`);
  }
}
