import { readFileSync } from 'node:fs';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import * as linalg from '../src/linalg.ts';
import { setRank } from '../src/rank.ts';
import { elementCount } from '../src/base/shape.ts';
import { ConfigError, ShapeError, TensorStateError } from '../src/spec/errors.ts';
import { fromData, ones, tensor, zeros } from '../src/tensor/create.ts';
import { eye } from '../src/tensor/create-ranges.ts';
import { grad } from '../src/tensor/gradients.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { worstDifference } from './golden/library.ts';

const schema = z.object({
  torch: z.string(),
  cases: z.array(
    z.object({
      op: z.enum(['cholesky', 'qr', 'svd', 'solveTriangular']),
      options: z.record(z.string(), z.boolean()),
      inputs: z.array(z.object({ shape: z.array(z.int()), values: z.string() })),
      results: z.array(z.string()),
      gradients: z.array(z.string()),
    }),
  ),
});
type Case = z.infer<typeof schema>['cases'][number];

/** The values that tools/golden-linalg.py recorded. */
const { cases } = schema.parse(
  JSON.parse(readFileSync(new URL('./golden/linalg.json', import.meta.url), 'utf8')),
);

beforeEach(() => setRank({ device: interpreter() }));

function leaf({ shape, values }: Case['inputs'][number]): Tensor {
  return fromData(Float32Array.from(values.split(' ').map(Number)), shape, 'f32').requiresGrad_();
}

async function resultsOf({ op, options }: Case, inputs: readonly Tensor[]): Promise<Tensor[]> {
  const [a = zeros([0, 0]), b = a] = inputs;
  if (op === 'cholesky') return [await linalg.cholesky(a)];
  if (op === 'qr') {
    const { q, r } = await linalg.qr(a);
    return [q, r];
  }
  if (op === 'svd') {
    const { u, s, vh } = await linalg.svd(a);
    return [u, s, vh];
  }
  const { upper = false, unitriangular = false } = options;
  return [await linalg.solveTriangular(a, b, { upper, unitriangular })];
}

function lossOf(results: readonly Tensor[]): Tensor {
  const sums = results.map((result) => {
    const weights = Float32Array.from({ length: elementCount(result.shape) }, (_, i) => i + 1);
    return result
      .square()
      .mul(fromData(weights, result.shape, 'f32'))
      .sum();
  });
  return sums.reduce((total, each) => total.add(each));
}

describe('factors and gradients are those of PyTorch', () => {
  test.each(
    cases.map((each) => [`${each.op} of ${each.inputs[0]?.shape.join(' x ')}`, each] as const),
  )('%s', async (_, recorded) => {
    const inputs = recorded.inputs.map(leaf);
    const results = await resultsOf(recorded, inputs);
    // Singular vectors may have either sign.
    const isSigned = recorded.op !== 'svd';
    for (const [i, text] of recorded.results.entries()) {
      const found = Array.from((await results[i]?.data()) ?? [], Number);
      const sizes = text.split(' ').map((word) => Math.abs(Number(word)));
      const expected = isSigned ? text : sizes.join(' ');
      const own = isSigned ? found : found.map(Math.abs);
      expect(worstDifference(own, expected, { rtol: 1e-4, atol: 1e-5 })).toBeLessThan(1);
    }
    lossOf(results).backward();
    for (const [i, text] of recorded.gradients.entries()) {
      const found = Array.from((await inputs[i]?.grad?.data()) ?? [], Number);
      expect(worstDifference(found, text, { rtol: 1e-3, atol: 1e-4 })).toBeLessThan(1);
    }
  });
});

describe('factors make up the matrix again', () => {
  const numbers = async (x: Tensor): Promise<number[]> => Array.from(await x.data(), Number);

  test('also where columns depend on each other, or are 0', async () => {
    const x = tensor([
      [1, 2, 0],
      [2, 4, 0],
      [3, 6, 0],
    ]);
    const { u, s, vh } = await linalg.svd(x);
    const again = await numbers(u.mul(s).matmul(vh));
    const expected = await numbers(x);
    again.forEach((value, i) => expect(value).toBeCloseTo(expected[i] ?? Number.NaN, 5));
    const units = await numbers(u.matmul(u, { transposeA: true }));
    const identity = await numbers(eye(3));
    units.forEach((value, i) => expect(value).toBeCloseTo(identity[i] ?? Number.NaN, 5));
    const { q, r } = await linalg.qr(x);
    const product = await numbers(q.matmul(r));
    product.forEach((value, i) => expect(value).toBeCloseTo(expected[i] ?? Number.NaN, 5));
  });

  test('of no rows', async () => {
    const { s } = await linalg.svd(zeros([0, 3]));
    expect(s.shape).toEqual([0]);
  });
});

describe('what cannot be factorized is an error', () => {
  test('a matrix that is not positive definite, with the row', async () => {
    const x = tensor([
      [1, 2],
      [2, 1],
    ]);
    await expect(linalg.cholesky(x)).rejects.toThrow(ConfigError);
    await expect(linalg.cholesky(x)).rejects.toThrow('at row 1');
  });

  test('shapes that are no matrices, or do not fit', async () => {
    await expect(linalg.cholesky(ones([2, 3]))).rejects.toThrow(ShapeError);
    await expect(linalg.qr(ones([3]))).rejects.toThrow(ShapeError);
    const solution = linalg.solveTriangular(ones([2, 2]), ones([3, 1]), { upper: true });
    await expect(solution).rejects.toThrow(ShapeError);
  });

  test('a second derivative', async () => {
    const x = eye(2).add(0).detach();
    const a = fromData(Float32Array.from(await x.data(), Number), [2, 2], 'f32').requiresGrad_();
    const lower = await linalg.cholesky(a);
    expect(() => grad(lower.sum(), [a], { createGraph: true })).toThrow(TensorStateError);
  });
});
