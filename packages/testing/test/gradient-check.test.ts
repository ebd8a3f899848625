import { checkGradients, finiteDifference } from '@shardwise/testing';
import type { FloatArray, ScalarFunction } from '@shardwise/testing';
import { describe, expect, test } from 'vitest';

/** Σ x³ y, with the gradients 3x²y and x³. */
const cubic: ScalarFunction = async ([x, y]) =>
  Array.from(x ?? []).reduce((sum, xi, i) => sum + xi ** 3 * (y?.[i] ?? 0), 0);
const X = [0.5, -1, 2];
const Y = [1, 2, -0.5];
const BY_X = X.map((x, i) => 3 * x * x * (Y[i] ?? 0));
const BY_Y = X.map((x) => x ** 3);

describe('finite differences', () => {
  test('are exact for cubics in f64, up to rounding', async () => {
    const inputs = [Float64Array.from(X), Float64Array.from(Y)];
    const slope = await finiteDifference(cubic, inputs, [
      [1, 0, 0],
      [0, 0, 0],
    ]);
    expect(slope).toBeCloseTo(0.75, 10);
  });

  test('reach six digits of a sine in f64', async () => {
    const sine: ScalarFunction = async ([x]) => Math.sin(x?.[0] ?? 0);
    expect(await finiteDifference(sine, [Float64Array.of(1)], [[1]])).toBeCloseTo(Math.cos(1), 10);
    expect(await finiteDifference(sine, [Float32Array.of(1)], [[1]])).toBeCloseTo(Math.cos(1), 5);
  });
});

describe('a gradient check', () => {
  const inputs: readonly FloatArray[] = [Float32Array.from(X), Float32Array.from(Y)];

  test('passes the right gradients', async () => {
    await expect(checkGradients(cubic, inputs, [BY_X, BY_Y])).resolves.toBeUndefined();
  });

  test('names the input whose gradient is wrong', async () => {
    const wrong = BY_Y.with(1, 0);
    const check = checkGradients(cubic, inputs, [BY_X, wrong], { directions: 0 });
    await expect(check).rejects.toThrow(
      'the gradient of input 1 is not that of finite differences',
    );
  });

  test('finds one wrong element of a large input by random directions alone', async () => {
    const x = Float64Array.from({ length: 500 }, (_, i) => i / 500);
    const sumOfSquares: ScalarFunction = async ([v]) =>
      Array.from(v ?? []).reduce((sum, vi) => sum + vi * vi, 0);
    const gradient = Array.from(x, (xi) => 2 * xi);
    await expect(checkGradients(sumOfSquares, [x], [gradient])).resolves.toBeUndefined();
    const check = checkGradients(sumOfSquares, [x], [gradient.with(250, 3)]);
    await expect(check).rejects.toThrow('the derivative in random direction 0');
  });

  test('refuses gradients of other lengths', async () => {
    await expect(checkGradients(cubic, inputs, [BY_X])).rejects.toThrow(
      'lengths 3 for inputs of lengths 3,3',
    );
  });
});
