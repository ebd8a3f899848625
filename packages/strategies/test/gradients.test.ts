import { nn, optim, type Tensor } from '@shardwise/core';
import { ddp, type DistributedDataParallelOptions, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

/** The elements of one rank's gradients. All elements of a parameter have the same gradient. */
type Gradients = Readonly<Record<'left' | 'right' | 'shared', number>>;

/** A model with a weight for each branch. The caller chooses which branches a forward pass uses. */
class Branches extends nn.Module {
  readonly left = new nn.Parameter(new Float32Array(5), [5]);
  readonly right = new nn.Parameter(new Float32Array(5), [5]);
  readonly shared = new nn.Parameter(new Float32Array(3), [3]);

  /** Returns the sum of the elements of each branch times its factor. Branches without a factor are left out. */
  forward(factors: Readonly<Partial<Record<'left' | 'right' | 'shared', number>>>): Tensor {
    const terms = Object.entries(factors).map(([name, factor]) =>
      this.#branch(name).sum().mul(factor),
    );
    return terms.reduce((sum, term) => sum.add(term));
  }

  #branch(name: string): nn.Parameter {
    return name === 'left' ? this.left : name === 'right' ? this.right : this.shared;
  }
}

/** Returns the one number of which a tensor consists. */
async function elementOf(tensor: Tensor | null): Promise<number> {
  const values = new Set(tensor === null ? [] : await valuesOf(tensor));
  expect(values.size).toBe(1);
  return [...values][0] ?? Number.NaN;
}

async function read({ left, right, shared }: Branches): Promise<Gradients> {
  return {
    left: await elementOf(left.grad),
    right: await elementOf(right.grad),
    shared: await elementOf(shared.grad),
  };
}

/** Returns the change that an update makes to parameters that were zero. */
async function updated(model: Branches): Promise<Gradients> {
  await new optim.SGD(model.parameters(), { lr: 1 }).step();
  const { left, right, shared } = model;
  return {
    left: -(await elementOf(left)),
    right: -(await elementOf(right)),
    shared: -(await elementOf(shared)),
  };
}

function create(options: DistributedDataParallelOptions = {}) {
  return parallelize(new Branches(), ddp({ findUnusedParameters: true, ...options }));
}

/** A way to train on one of three ranks, and the gradients that it has. Most are the means over the ranks. */
type Case = readonly [
  title: string,
  expected: Gradients | ((rank: number) => Gradients),
  train: (rank: number) => Promise<Gradients>,
];

const cases: readonly Case[] = [
  [
    'ranks that use different branches',
    { left: (1 + 3) / 3, right: 2 / 3, shared: 1 },
    async (rank) => {
      const parallel = await create();
      parallel
        .forward(rank % 2 === 0 ? { left: rank + 1, shared: 1 } : { right: rank + 1, shared: 1 })
        .backward();
      return read(parallel.module);
    },
  ],
  [
    'two parameters that only rank 0 leaves out',
    { left: 2, right: 4, shared: 3 },
    async (rank) => {
      const parallel = await create();
      parallel.forward(rank === 0 ? { shared: 3 } : { left: 3, right: 6, shared: 3 }).backward();
      return read(parallel.module);
    },
  ],
  [
    'a gradient that rank 0 alone has read before',
    { left: (3 + 6 + 6) / 3, right: 0, shared: 3 },
    async (rank) => {
      const parallel = await create();
      parallel.noSync(() => parallel.forward({ left: 3 }).backward());
      if (rank === 0) await parallel.module.left.grad?.data();
      parallel.forward(rank === 0 ? { shared: 3 } : { left: 3, shared: 3 }).backward();
      return read(parallel.module);
    },
  ],
  [
    'a bucket for each parameter, where no rank uses the same one',
    { left: 1, right: 1, shared: 1 },
    async (rank) => {
      const parallel = await create({ bucketBytes: 1 });
      const factors = [{ left: 3 }, { right: 3 }, { shared: 3 }][rank];
      parallel.forward(factors ?? {}).backward();
      return read(parallel.module);
    },
  ],
  [
    'two losses of different branches, without findUnusedParameters',
    { left: 1, right: 1, shared: 3 },
    async (rank) => {
      const parallel = await create({ findUnusedParameters: false });
      parallel.forward({ left: rank, shared: 1 }).backward();
      parallel.forward({ right: rank, shared: 2 }).backward();
      return updated(parallel.module);
    },
  ],
  [
    'losses in another order on each rank, without findUnusedParameters',
    { left: 3, right: 6, shared: 9 },
    async (rank) => {
      const parallel = await create({ findUnusedParameters: false, bucketBytes: 1 });
      const losses = [{ left: 3 * rank }, { right: 6 * rank }, { shared: 9 * rank }];
      for (const index of [0, 1, 2]) {
        parallel.forward(losses[(index + rank) % 3] ?? {}).backward();
        if (rank === 1) await parallel.module.left.grad?.data();
      }
      return updated(parallel.module);
    },
  ],
  [
    "a hook of the user's, which sees what is this rank's",
    { left: 1 + 2, right: 6, shared: 6 },
    async (rank) => {
      const parallel = await create();
      const { left } = parallel.module;
      left.registerPostAccumulateGradHook(() => {
        if (left.grad !== null) left.setGradientNode(left.grad.mul(rank).node);
      });
      parallel.forward({ left: 1, right: 3, shared: 3 }).backward();
      parallel.forward({ left: 2, right: 3, shared: 3 }).backward();
      return read(parallel.module);
    },
  ],
  [
    'passes inside noSync alone',
    (rank) => ({ left: rank, right: 1, shared: 1 }),
    async (rank) => {
      const parallel = await create();
      parallel.noSync(() => parallel.forward({ left: rank, right: 1, shared: 1 }).backward());
      return read(parallel.module);
    },
  ],
  [
    'noSync left by an error',
    { left: 1, right: 1, shared: 1 },
    async (rank) => {
      const parallel = await create();
      expect(() =>
        parallel.noSync(() => {
          throw new RangeError('planned');
        }),
      ).toThrow('planned');
      parallel.forward({ left: rank, right: rank, shared: rank }).backward();
      return read(parallel.module);
    },
  ],
  [
    'a model that was detached',
    (rank) => ({ left: rank, right: 1, shared: 1 }),
    async (rank) => {
      const parallel = await create();
      const model = parallel.detach();
      model.forward({ left: rank, right: 1, shared: 1 }).backward();
      return read(model);
    },
  ],
];

describe('gradients on 3 ranks are the mean of the ranks, also with', () => {
  it.each(cases)('%s', async (_, expected, train) => {
    await onRanks(3, async ({ rank }) => {
      const { left, right, shared } = typeof expected === 'function' ? expected(rank) : expected;
      const [x, y, z] = [left, right, shared].map(Math.fround);
      expect(await train(rank)).toEqual({ left: x, right: y, shared: z });
    });
  });
});
