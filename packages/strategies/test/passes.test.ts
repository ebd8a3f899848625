import { fromData, nn, ones, optim, statistics, type Tensor } from '@shardwise/core';
import { ddp, type ModelPlan, parallelize, stepKinds, stepsOf } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { failureOf } from './failure-of.ts';

const size = 3;

/** A model that uses its layers in another order than it declares them. */
class Tangled extends nn.Module {
  readonly last = new nn.Linear(2, 2, { bias: false });
  readonly first = new nn.Linear(2, 2, { bias: false });
  readonly middle = new nn.Linear(2, 2, { bias: false });
  readonly spare = new nn.Linear(2, 2, { bias: false });

  constructor() {
    super();
    this.apply((module) => {
      if (module instanceof nn.Linear)
        module.weight.assign(fromData(Float32Array.of(1, 0, 0, 1), [2, 2], 'f32'));
    });
    this.spare.requiresGrad_(false);
  }

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor, alternative = false): Tensor {
    const [one, two] = alternative ? [this.middle, this.last] : [this.last, this.middle];
    return one.forward(two.forward(this.first.forward(x)));
  }
}

/** Returns the names of parameters whose gradients are reduced together, in the order in which they are reduced. */
function bucketsOf({ plan }: { readonly plan: ModelPlan }): (readonly string[])[] {
  return stepsOf(plan, stepKinds.reduce).map(({ data }) => data.parameters);
}

/** A model that adds the sums of two weights, or takes one of them. */
class Pair extends nn.Module {
  readonly a = new nn.Linear(2, 2, { bias: false });
  readonly b = new nn.Linear(2, 2, { bias: false });

  /** Shape: -> []. */
  forward(uses: 'a' | 'b' | 'both'): Tensor {
    const a = this.a.weight.sum();
    const b = this.b.weight.sum();
    return uses === 'a' ? a : uses === 'b' ? b : a.add(b);
  }
}

/** A model with buffers of two dtypes. */
class Buffers extends nn.Module {
  readonly linear = new nn.Linear(2, 2);
  readonly mean = new nn.BufferTensor(Float32Array.of(0, 0), [2]);
  readonly variance = new nn.BufferTensor(Float32Array.of(0, 0, 0, 0), [2, 2]);
  readonly count = new nn.BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
  readonly epoch = new nn.BufferTensor(Int32Array.of(0, 0), [2], { dtype: 'i32' });

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return this.linear.forward(x).add(this.mean);
  }
}

describe('buckets', () => {
  const declared = [['middle.weight'], ['first.weight'], ['last.weight']];
  // Backward visits the layers in the reverse of the order in which rank 0 used them.
  const arrived = [['last.weight'], ['middle.weight'], ['first.weight']];

  it.each([
    // The backward pass of the second step is the first that uses the new buckets.
    [
      "are filled again in the order of rank 0's gradients when the first step is over",
      false,
      [declared, declared, arrived, arrived],
    ],
    [
      'stay as they are where parameters may be unused',
      true,
      [declared, declared, declared, declared],
    ],
  ])(
    'buckets %s, and give the mean of the ranks in either order',
    async (_, findUnusedParameters, expected) => {
      await onRanks(size, async ({ rank }) => {
        const options = { bucketBytes: 1, findUnusedParameters };
        const parallel = await parallelize(new Tangled(), ddp(options));
        const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0 });
        const seen = [bucketsOf(parallel)];
        for (let step = 0; step < 3; step++) {
          optimizer.zeroGrad();
          // Rank 0's order counts, whatever the order of the other ranks.
          parallel
            .forward(ones([1, 2]).mul(rank + 1), rank > 0)
            .sum()
            .backward();
          await optimizer.step();
          seen.push(bucketsOf(parallel));
        }
        expect(seen).toEqual(expected);
        const mean = (1 + 2 + 3) / 3;
        for (const { weight } of [
          parallel.module.first,
          parallel.module.middle,
          parallel.module.last,
        ])
          expect(weight.grad && (await valuesOf(weight.grad))).toEqual([mean, mean, mean, mean]);
        expect(parallel.module.spare.weight.grad).toBeNull();
      });
    },
  );
});

describe('a static graph', () => {
  const options = { staticGraph: true, bucketBytes: 1 };

  it('a static graph counts parameters that no pass uses as zero', async () => {
    await onRanks(size, async ({ rank }) => {
      const parallel = await parallelize(new Pair(), ddp(options));
      const { a, b } = parallel.module;
      const mean = (0 + 1 + 2) / 3;
      for (let step = 0; step < 3; step++) {
        parallel.module.zeroGrad();
        parallel.forward('a').mul(rank).backward();
        expect(a.weight.grad && (await valuesOf(a.weight.grad))).toEqual([mean, mean, mean, mean]);
        expect(b.weight.grad && (await valuesOf(b.weight.grad))).toEqual([0, 0, 0, 0]);
      }
    });
  });

  it.each([
    ['a', 'both', 'b.weight got a gradient for the first time'],
    ['both', 'a', 'b.weight got no gradient this time'],
  ] as const)(
    'a static graph is an error where a later step uses other parameters, which it names: %s, then %s',
    async (before, after, message) => {
      await onRanks(size, async () => {
        const parallel = await parallelize(new Pair(), ddp(options));
        const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 1 });
        const step = (uses: 'a' | 'both'): Promise<unknown> => {
          optimizer.zeroGrad();
          parallel.forward(uses).backward();
          return optimizer.step();
        };
        await step(before);
        await step(before);
        const failure = await failureOf(step(after));
        expect(failure?.code).toBe('TENSOR_STATE');
        expect(failure?.message).toContain(message);
      });
    },
  );
});

describe('buffers', () => {
  it("of one dtype travel as one message, and are rank 0's on all ranks", async () => {
    await onRanks(size, async ({ rank }) => {
      const parallel = await parallelize(new Buffers(), ddp());
      const buffers = [...parallel.module.namedBuffers()];
      for (const [, buffer] of buffers) {
        buffer.assign(buffer.add(rank + 1));
        await buffer.data();
      }
      const before = statistics().collectives;
      await parallel.forward(ones([1, 2])).data();
      expect(statistics().collectives - before).toBe(2);
      expect(buffers.map(([name]) => name)).toEqual(['mean', 'variance', 'count', 'epoch']);
      for (const [, buffer] of buffers) {
        expect(await valuesOf(buffer)).toEqual(Array.from({ length: buffer.numel }, () => 1));
      }
    });
  });
});
