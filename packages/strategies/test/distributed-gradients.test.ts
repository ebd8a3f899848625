import { autograd, fromData, type Layout, type Tensor } from '@shardwise/core';
import { distributeTensor } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { axesOf, values } from './ranks/distributed-tensor-values.ts';

const whole: Layout = { dims: [[]], partial: [] };
const parts: Layout = { dims: [['a']], partial: [] };

function leaf(seed: number): Tensor {
  return fromData(values(5, seed), [5], 'f32').requiresGrad_();
}

async function numbers(...tensors: readonly (Tensor | null | undefined)[]): Promise<number[][]> {
  const read = await Promise.all(tensors.map(async (tensor) => tensor?.data()));
  return read.map((each) => Array.from(each ?? [], Number));
}

function expectClose(found: readonly number[] = [], wanted: readonly number[] = []): void {
  expect(found).toHaveLength(wanted.length);
  for (const [at, value] of wanted.entries()) expect(found[at]).toBeCloseTo(value, 5);
}

describe.each([
  ['that each rank uses in its own way', { ...whole, replicate: ['a'] }],
  ['that is sharded element by element', { ...whole, flat: ['a'] }],
] as const)('a tensor %s', (_, layout) => {
  it('has hooks that get the whole gradient', async () => {
    const found = await onRanks(
      2,
      async () => {
        const [x, factors] = [leaf(1), leaf(2)];
        const spread = distributeTensor(x, layout);
        const seen: Tensor[] = [];
        spread.registerHook((gradient) => {
          seen.push(gradient.fullTensor());
          return gradient.mul(2);
        });
        spread.mul(distributeTensor(factors, parts)).sum().fullTensor().backward();
        return numbers(seen[0], factors, x.grad);
      },
      { axes: axesOf(2) },
    );
    for (const [seen, factors = [], gradient] of found) {
      expectClose(seen, factors);
      expectClose(
        gradient,
        factors.map((value) => 2 * value),
      );
    }
  });

  it('gets the gradient of a function with its own rule once', async () => {
    const found = await onRanks(
      2,
      async () => {
        const [x, y] = [leaf(1), leaf(2)];
        const mixed = distributeTensor(x, layout).lerp(distributeTensor(y, parts), 0.25);
        mixed.sum().fullTensor().backward();
        return numbers(x.grad);
      },
      { axes: axesOf(2) },
    );
    for (const [gradient] of found) expectClose(gradient, [0.75, 0.75, 0.75, 0.75, 0.75]);
  });

  it('takes a gradient of the whole once', async () => {
    const found = await onRanks(
      2,
      async () => {
        const [x, gradient] = [leaf(1), leaf(2)];
        distributeTensor(x, layout).backward(distributeTensor(gradient, whole));
        return numbers(gradient, x.grad);
      },
      { axes: axesOf(2) },
    );
    for (const [given, gradient] of found) expectClose(gradient, given);
  });
});

describe('a function with its own gradient', () => {
  const twice = autograd.customFunction({
    name: 'twice',
    forward: (x) => x.mul(2),
    backward: (gradient) => gradient.mul(2),
  });

  it.each([
    ['that is a sum of terms, as its result is', twice],
    ['whose terms are summed first', (x: Tensor) => x.expm1()],
  ])('takes a tensor %s', async (_, program) => {
    const found = await onRanks(
      2,
      async () => {
        const results: number[][][] = [];
        for (const isDistributed of [false, true]) {
          const x = leaf(1);
          const result = program(
            isDistributed ? distributeTensor(x, { ...whole, partial: ['a'] }) : x,
          );
          const made = isDistributed ? result.fullTensor() : result;
          made.square().sum().backward();
          results.push(await numbers(made, x.grad));
        }
        return results;
      },
      { axes: axesOf(2) },
    );
    for (const [alone = [], distributed = []] of found) {
      expectClose(distributed[0], alone[0]);
      expectClose(distributed[1], alone[1]);
    }
  });
});
