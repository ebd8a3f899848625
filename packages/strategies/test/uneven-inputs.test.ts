import { fromData, nn, noGrad, optim, type Tensor } from '@shardwise/core';
import {
  ddp,
  join,
  type JoinOptions,
  parallelize,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { failureOf } from './failure-of.ts';

/** A model in which the gradient of each weight is its input. It counts its training passes. */
class Scale extends nn.Module {
  readonly weight = new nn.Parameter(Float32Array.of(0), [1]);
  readonly other = new nn.Parameter(Float32Array.of(0, 0), [2]);
  readonly seen = new nn.BufferTensor(Float32Array.of(0), [1]);

  /** Shape: x [1] -> []. */
  forward(x: Tensor): Tensor {
    noGrad(() => this.seen.assign(this.seen.add(1)));
    // Backward computes the gradient of the first term first.
    return this.other.mul(x.mul(10)).sum().add(this.weight.mul(x).sum());
  }
}

interface Training {
  /** The number of batches of each rank. */
  readonly batches: readonly number[];
  readonly options?: JoinOptions;
  readonly zeroRedundancy?: boolean;
  /** Replaces the single forward and backward pass for each batch. */
  readonly pass?: (forward: () => Tensor) => void;
}

/** Trains on three ranks with different numbers of batches, and then makes one more step on all of them. */
function train({
  batches,
  options,
  zeroRedundancy = false,
  pass = (forward) => forward().backward(),
}: Training) {
  return onRanks(batches.length, async ({ rank }) => {
    const model = new Scale();
    const parallel = await parallelize(model, ddp());
    const settings = { lr: 1 };
    const plain = new optim.SGD(model.parameters(), settings);
    const sharded = new ZeroRedundancyOptimizer(model.parameters(), optim.SGD, settings);
    const optimizer = zeroRedundancy ? sharded : plain;
    const forward = (): Tensor => parallel.forward(fromData(Float32Array.of(rank + 1), [1], 'f32'));
    let steps = 0;
    const body = async (): Promise<void> => {
      for (; steps < (batches[rank] ?? 0); steps++) {
        optimizer.zeroGrad();
        pass(forward);
        await optimizer.step();
      }
    };
    const error = await failureOf(
      join(zeroRedundancy ? [parallel, sharded] : [parallel], body, options),
    );
    if (error === null) {
      optimizer.zeroGrad();
      forward().backward();
      await optimizer.step();
    }
    const { weight, other, seen } = model;
    const weights = [...(await valuesOf(weight)), ...(await valuesOf(other))];
    return { steps, error, weights, seen: await seen.item() };
  });
}

describe('ranks with different numbers of batches', () => {
  // A batch of rank r has the gradient r + 1. The learning rate is 1.
  const more = { batches: [1, 2, 3] };
  const all = (1 + 2 + 3 + 2 + 3 + 3) / 3;

  it.each<[string, Training, distance: number]>([
    ['later ranks have more', more, all],
    ['rank 0 has more', { batches: [3, 2, 1] }, (1 + 2 + 3 + 1 + 2 + 1) / 3],
    ['all have as many', { batches: [2, 2, 2] }, 2 * 2],
    ['one rank has none', { batches: [3, 0, 3] }, (3 * (1 + 3)) / 3],
    [
      'divided by those that take part',
      { ...more, options: { divideByInitialWorldSize: false } },
      2 + 2.5 + 3,
    ],
    ['with a ZeroRedundancyOptimizer', { ...more, zeroRedundancy: true }, all],
  ])(
    'end with one model, and share the buffers of a rank that has batches: %s',
    async (_, training, distance) => {
      const ranks = await train(training);
      const { batches } = training;
      expect(ranks.map(({ steps }) => steps)).toEqual(batches);
      for (const { error, weights, seen } of ranks) {
        expect(error).toBeNull();
        // All ranks then make one more step, whose gradient is 2.
        const [first = NaN, ...others] = weights;
        expect(first).toBeCloseTo(-distance - 2, 5);
        expect(others).toHaveLength(2);
        for (const value of others) expect(value / 10).toBeCloseTo(-distance - 2, 5);
        expect(weights).toEqual(ranks[0]?.weights);
        expect(seen).toBe(Math.max(...batches) + 1);
      }
    },
  );

  it.each<[string, string, Required<Training>['pass']]>([
    [
      'evaluating between forward and backward',
      'no backward pass before the next forward pass',
      (forward) => {
        const loss = forward();
        noGrad(forward);
        loss.backward();
      },
    ],
    [
      'with two backward passes for one forward pass',
      'a second backward pass',
      (forward) => {
        const loss = forward();
        loss.backward();
        loss.backward();
      },
    ],
  ])('are refused %s, which the others would not know of', async (_, found, pass) => {
    for (const { error } of await train({ ...more, pass })) {
      expect(error?.code).toBe('TENSOR_STATE');
      expect(error?.message).toContain(
        `one backward pass for each forward pass inside join: ${found}`,
      );
    }
  });

  it('stop with an error on all of them when the first has run out, where that is asked for', async () => {
    const options = { throwOnEarlyTermination: true };
    const ranks = await train({ batches: [2, 4, 6], options });
    // The other ranks finish the step that was under way when rank 0 ended.
    expect(ranks.map(({ steps }) => steps)).toEqual([2, 3, 3]);
    for (const { error } of ranks) {
      expect(error?.code).toBe('DATA');
      expect(error?.message).toContain('the same number of batches on each of 3 ranks');
    }
  });
});
