import { readFile } from 'node:fs/promises';
import * as sw from 'shardwise';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { autocastGolden, largestDifference, lossCurve } from './golden/autocast-curve.ts';
import { goldenNames } from './golden/models.ts';
import { optimizerNames } from './golden/optimizers.ts';

// The expected values come from PyTorch's autocast on a CPU (tools/golden-autocast.py).

const { functional: F } = sw.nn;
const halves = ['bf16', 'f16'] as const;

/** Returns the same numbers as the tool. They are rounded once to f32. */
function waves(shape: readonly number[], start = 0): sw.Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin((i + start) * 1.7 + 0.3));
  return sw.fromData(values, shape, 'f32');
}

const square = (start: number): sw.Tensor => waves([4, 5], start);
const classes = (): sw.Tensor => sw.tensor([1, 0, 3], 'i32');

/** An operation on x f32 [4, 5] and on `half`, the same values in the dtype of the autocast. */
type Operation = (x: sw.Tensor, half: sw.Tensor, to: (x: sw.Tensor) => sw.Tensor) => sw.Tensor;

const operations = {
  matmul: (x) => x.matmul(waves([5, 3], 50)),
  'matmul of a vector': (x) => x.matmul(waves([5], 50)),
  linear: (x) => F.linear(x, waves([3, 5], 50), waves([3], 80)),
  conv2d: (x) =>
    F.conv2d(x.reshape([1, 1, 4, 5]), waves([2, 1, 3, 3], 50), waves([2], 80), { padding: 1 }),
  'conv transposed': (x) =>
    F.convTranspose2d(x.reshape([1, 2, 2, 5]), waves([2, 1, 3, 3], 50), null, { stride: 2 }),
  attention: (x) =>
    F.scaledDotProductAttention(
      x.reshape([1, 1, 4, 5]),
      waves([1, 1, 4, 5], 50),
      waves([1, 1, 4, 5], 90),
      { causal: true },
    ),
  einsum: (x) => sw.einsum('ij,kj->ik', x, waves([3, 5], 50)),
  add: (_, half) => half.add(square(50)),
  mul: (_, half, to) => half.mul(to(square(50))),
  gelu: (_, half) => half.gelu(),
  exp: (_, half) => half.exp(),
  sum: (_, half) => half.sum(1),
  mean: (_, half) => half.mean(1),
  softmax: (_, half) => half.softmax(),
  'log softmax': (_, half) => half.logSoftmax(),
  'layer norm': (_, half) => half.layerNorm(waves([5], 50), waves([5], 60), 1e-5),
  'batch norm': (_, half) => new sw.nn.BatchNorm1d(5, { affine: false }).forward(half),
  norm: (_, half) => half.norm(1),
  'average pool': (_, half) => F.avgPool2d(half.reshape([1, 1, 4, 5]), 2),
  'mse loss': (_, half, to) => F.mseLoss(half, to(square(50))),
  'l1 loss': (_, half, to) => F.l1Loss(half, to(square(50))),
  'smooth l1 loss': (_, half, to) => F.smoothL1Loss(half, to(square(50))),
  'huber loss': (_, half, to) => F.huberLoss(half, to(square(50))),
  'cross entropy': (_, half) => F.crossEntropy(half.slice(0, 0, 3), classes()),
  'nll loss': (_, half) => F.nllLoss(half.slice(0, 0, 3), classes()),
  'binary cross entropy with logits': (_, half, to) =>
    F.binaryCrossEntropyWithLogits(half, to(square(50).abs())),
  'kl div': (_, half, to) => F.klDiv(half, to(square(50).abs())),
  'cosine embedding loss': (_, half, to) =>
    F.cosineEmbeddingLoss(half, to(square(50)), sw.tensor([1, -1, 1, 1])),
  'triplet margin loss': (_, half, to) => F.tripletMarginLoss(half, to(square(50)), to(square(90))),
  cdist: (_, half, to) => sw.cdist(half, to(waves([3, 5], 50))),
} satisfies Record<string, Operation>;

/**
 * Operations that PyTorch rounds to 16 bits on a CPU and, except for the mean, not on CUDA. They are sums and
 * operations that divide by sums. Here they stay in f32, so that a loss that a user writes with them keeps its digits.
 */
const inFloat32: ReadonlySet<string> = new Set([
  'sum',
  'mean',
  'norm',
  'softmax',
  'log softmax',
  'layer norm',
]);

const record = z.object({
  dtype: z.enum(['f32', ...halves]),
  values: z.array(z.number()),
  gradient: z.array(z.number()),
});
const golden = z
  .object({ operations: z.record(z.string(), z.record(z.enum(halves), record)) })
  .parse(JSON.parse(await readFile(new URL('golden/autocast.json', import.meta.url), 'utf8')));

test('the operations are those that were recorded', () => {
  expect(Object.keys(operations)).toEqual(Object.keys(golden.operations));
});

/** The distance between neighbouring numbers of a dtype, relative to the number. */
const step = { f32: 2 ** -23, bf16: 2 ** -7, f16: 2 ** -10 };

describe.each([
  ['the interpreter', async () => interpreter()],
  ['the CPU backend', async () => sw.cpu()],
] as const)('operations on %s', (_, device) => {
  beforeAll(async () => sw.setRank({ device: await device() }));

  describe.each(halves)('in %s', (dtype) => {
    test.each(Object.entries<Operation>(operations))(
      '%s has the dtype, the values and the gradient of PyTorch',
      async (name, operation) => {
        const expected = golden.operations[name]?.[dtype];
        const x = waves([4, 5]).requiresGrad_();
        const to = (given: sw.Tensor): sw.Tensor => given.to(dtype);
        const result = sw.autocast({ dtype }, () => operation(x, to(x), to));
        expect(result.dtype).toBe(inFloat32.has(name) ? 'f32' : expected?.dtype);
        result.mul(waves(result.shape, 7)).sum().backward();
        expectClose(await result.to('f32').data(), expected?.values, step[dtype]);
        expectClose((await x.grad?.data()) ?? [], expected?.gradient, 2 * step[dtype]);
      },
    );
  });
});

/** Compares values relative to the largest one. Sums in another order and other roundings differ by its last digit. */
function expectClose(
  actual: ArrayLike<number | bigint>,
  expected: readonly number[] | undefined,
  tolerance: number,
): void {
  const scale = Math.max(...(expected ?? []).map(Math.abs));
  expect(actual.length).toBe(expected?.length);
  for (const [i, value] of (expected ?? []).entries()) {
    expect(Math.abs(Number(actual[i]) - value), `element ${i}`).toBeLessThanOrEqual(
      tolerance * scale,
    );
  }
}

describe('training', () => {
  beforeAll(async () => sw.setRank({ device: await sw.cpu() }));

  describe.each(goldenNames)('%s', (model) => {
    test.each(optimizerNames)(
      'with %s has the losses of PyTorch, but for the noise of 16 bits',
      async (optimizer) => {
        const { curves, noise } = await autocastGolden(model, optimizer);
        for (const dtype of halves) {
          const losses = await lossCurve(model, optimizer, dtype);
          expect(losses).not.toEqual(curves.f32);
          expect(largestDifference(losses, curves.f32)).toBeLessThan(1.5 * noise[dtype]);
          expect(largestDifference(losses, curves[dtype])).toBeLessThan(2 * noise[dtype]);
        }
      },
    );
  });
});
