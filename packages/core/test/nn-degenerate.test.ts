import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { grad } from '../src/autograd.ts';
import * as nn from '../src/nn.ts';
import { ReduceLROnPlateau } from '../src/optim.ts';
import { setRank } from '../src/rank.ts';
import { DTypeError, ShapeError } from '../src/spec/errors.ts';
import { fromData, ones, tensor, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

const { functional } = nn;

beforeEach(() => setRank({ device: interpreter() }));

async function values(x: Tensor | null | undefined): Promise<number[]> {
  return x ? Array.from(await x.data(), Number) : [];
}

/** The first derivatives of a sum, and those of the sum of their squares. */
async function derivatives(y: Tensor, x: Tensor): Promise<readonly [number[], number[]]> {
  const [first] = grad(y.sum(), [x], { createGraph: true });
  const [second] = first === undefined ? [] : grad(first.square().sum(), [x]);
  return [await values(first), await values(second)];
}

describe('norms refuse', () => {
  test.each([
    ['BatchNorm2d', new nn.BatchNorm2d(1)],
    ['GroupNorm', new nn.GroupNorm(1, 1)],
    ['InstanceNorm2d', new nn.InstanceNorm2d(1)],
  ])('integers, which %s would cut off', (name, norm) => {
    const image = fromData(Uint8Array.of(0, 100, 200, 255), [1, 1, 2, 2], 'u8');
    expect(() => norm.forward(image)).toThrow(DTypeError);
    expect(() => norm.forward(image)).toThrow(name);
  });

  test('one value for each group, of which nothing would be left', async () => {
    const norm = new nn.GroupNorm(3, 3);
    expect(() => norm.forward(ones([1, 3]))).toThrow('GroupNorm with x of shape [1, 3]: one value');
    expect(await values(norm.forward(ones([2, 3])))).toEqual([0, 0, 0, 0, 0, 0]);
  });
});

describe('windows refuse images and kernels without elements:', () => {
  const { conv1d, conv2d, conv3d, convTranspose2d, maxPool1d, avgPool1d } = functional;
  const { adaptiveAvgPool1d, adaptiveAvgPool2d } = functional;
  const calls: Readonly<Record<string, () => Tensor>> = {
    'conv1d with weight': () => conv1d(ones([1, 1, 2]), zeros([1, 1, 0])),
    'conv2d with x': () => conv2d(zeros([1, 1, 0, 2]), ones([1, 1, 1, 1]), null, { padding: 1 }),
    'conv3d with weight': () => conv3d(ones([1, 1, 2, 2, 2]), zeros([1, 1, 1, 0, 1])),
    'convTranspose2d with weight': () => convTranspose2d(ones([1, 1, 2, 2]), zeros([1, 1, 0, 1])),
    'maxPool2d with x': () => maxPool1d(zeros([1, 1, 0]), 2, { padding: 1 }),
    'avgPool2d with x': () => avgPool1d(zeros([1, 1, 0]), 2, { padding: 1 }),
    'adaptiveAvgPool1d with x': () => adaptiveAvgPool1d(zeros([1, 1, 0]), 2),
    'adaptiveAvgPool2d with x': () => adaptiveAvgPool2d(zeros([1, 1, 0, 2]), 2),
  };
  test.each(Object.entries(calls))('%s', (message, call) => {
    expect(call).toThrow(ShapeError);
    expect(call).toThrow(message);
  });
});

test('embedding refuses tables that are no matrices', () => {
  const indices = tensor([0, 1], 'i32');
  expect(() => functional.embedding(indices, ones([2, 3, 1]))).toThrow(
    'embedding with weight of shape [2, 3, 1]: 3 dims instead of 2',
  );
});

test('an LSTM refuses one of its two initial states', () => {
  const lstm = new nn.LSTM(2, 3);
  const some: nn.LSTMState = JSON.parse('[]');
  expect(() => lstm.forward(ones([4, 1, 2]), some)).toThrow(
    'LSTM with initial states: no hidden state',
  );
});

test('attention has finite second derivatives where a query sees no key', async () => {
  const trained = (elements: number[]): Tensor =>
    fromData(Float32Array.from(elements), [1, 1, 2, 1], 'f32').requiresGrad_();
  const [q, k, v] = [trained([1, 2]), trained([1, 0.5]), trained([1, 3])];
  const mask = tensor([
    [true, true],
    [false, false],
  ]);
  const y = functional.scaledDotProductAttention(q, k, v, { mask });
  const [first, second] = await derivatives(y.square(), q);
  expect(first[1]).toBe(0);
  expect(second[0]).toBeCloseTo(-0.3486, 3);
  expect(second[1]).toBe(0);
});

describe('gradients at no distance are those of PyTorch:', () => {
  test.each([3, 0.5])('tripletMarginLoss with p = %d and eps = 0', async (p) => {
    const anchor = tensor([[1, 2]]).requiresGrad_();
    const [positive, negative] = [tensor([[1, 2]]), tensor([[1, 2.5]])];
    functional.tripletMarginLoss(anchor, positive, negative, { p, eps: 0 }).backward();
    const [equal, other] = await values(anchor.grad);
    expect(equal).toBe(0);
    expect(other).toBeCloseTo(1);
  });

  test.each([
    ['huberLoss', functional.huberLoss],
    ['smoothL1Loss', functional.smoothL1Loss],
  ])('%s has the curvature of a square', async (_, loss) => {
    const x = tensor([1, 1.5]).requiresGrad_();
    const [first] = grad(loss(x, tensor([1, 1]), { reduction: 'sum' }), [x], { createGraph: true });
    const [second] = first === undefined ? [] : grad(first.sum(), [x]);
    expect(await values(second)).toEqual([1, 1]);
  });
});

test('nearest takes the scale for lines, and not for images whose size stays', async () => {
  const line = tensor([[[0, 1, 2]]]);
  const image = tensor([[[[0, 1, 2]]]]);
  expect(await values(functional.interpolate(line, { scaleFactor: 1.2 }))).toEqual([0, 0, 1]);
  expect(await values(functional.interpolate(image, { scaleFactor: [1, 1.2] }))).toEqual([0, 1, 2]);
});

test('the state of ReduceLROnPlateau survives JSON, also an infinite metric', async () => {
  const make = (): ReduceLROnPlateau =>
    new ReduceLROnPlateau({ paramGroups: [{ lr: 1 }] }, { mode: 'max', patience: 0 });
  const [whole, resumed] = [make(), make()];
  await whole.step(Infinity);
  resumed.loadStateDict(JSON.parse(JSON.stringify(whole.stateDict())));
  for (const plateau of [whole, resumed]) {
    await plateau.step(1);
    expect(plateau.learningRates).toEqual([0.1]);
  }
});
