import { nn, optim, type Tensor } from '@shardwise/core';
import { ddp, type DistributedDataParallelOptions, parallelize } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

/** The gradients of one rank, by parameter. */
type Gradients = Record<string, number[]>;

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

async function read(model: nn.Module): Promise<Gradients> {
  const found: Gradients = {};
  for (const [name, { grad }] of model.namedParameters())
    found[name] = Array.from((await grad?.data()) ?? [], Number);
  return found;
}

/** Returns the change that an update makes to parameters that were zero. */
async function updated(model: Branches): Promise<Gradients> {
  await new optim.SGD(model.parameters(), { lr: 1 }).step();
  const found: Gradients = {};
  for (const [name, parameter] of model.namedParameters())
    found[name] = Array.from(await parameter.data(), Number).map((value) => -value);
  return found;
}

function create(options: DistributedDataParallelOptions = {}) {
  return parallelize(new Branches(), ddp({ findUnusedParameters: true, ...options }));
}

/**
 * Cases whose gradients are known in closed form. The gradient of a parameter is the mean over ranks of its factors.
 */
const cases = {
  'ranks that use different branches': async (rank) => {
    const parallel = await create();
    parallel
      .forward(rank % 2 === 0 ? { left: rank + 1, shared: 1 } : { right: rank + 1, shared: 1 })
      .backward();
    return read(parallel.module);
  },
  'two parameters that only rank 0 leaves out': async (rank) => {
    const parallel = await create();
    parallel.forward(rank === 0 ? { shared: 3 } : { left: 3, right: 6, shared: 3 }).backward();
    return read(parallel.module);
  },
  'a gradient that rank 0 alone has read before': async (rank) => {
    const parallel = await create();
    parallel.noSync(() => parallel.forward({ left: 3 }).backward());
    if (rank === 0) await parallel.module.left.grad?.data();
    parallel.forward(rank === 0 ? { shared: 3 } : { left: 3, shared: 3 }).backward();
    return read(parallel.module);
  },
  'a bucket for each parameter, where no rank uses the same one': async (rank) => {
    const parallel = await create({ bucketBytes: 1 });
    const factors = [{ left: 3 }, { right: 3 }, { shared: 3 }][rank % 3];
    parallel.forward(factors ?? {}).backward();
    return read(parallel.module);
  },
  'two losses of different branches, without findUnusedParameters': async (rank) => {
    const parallel = await create({ findUnusedParameters: false });
    parallel.forward({ left: rank, shared: 1 }).backward();
    parallel.forward({ right: rank, shared: 2 }).backward();
    return updated(parallel.module);
  },
  'losses in another order on each rank, without findUnusedParameters': async (rank) => {
    const parallel = await create({ findUnusedParameters: false, bucketBytes: 1 });
    const losses = [{ left: 3 * rank }, { right: 6 * rank }, { shared: 9 * rank }];
    for (const index of [0, 1, 2]) {
      parallel.forward(losses[(index + rank) % 3] ?? {}).backward();
      if (rank === 1) await parallel.module.left.grad?.data();
    }
    return updated(parallel.module);
  },
  "a hook of the user's, which sees what is this rank's": async (rank) => {
    const parallel = await create();
    const { left } = parallel.module;
    left.registerPostAccumulateGradHook(() => {
      if (left.grad !== null) left.setGradientNode(left.grad.mul(rank).node);
    });
    parallel.forward({ left: 1, right: 3, shared: 3 }).backward();
    parallel.forward({ left: 2, right: 3, shared: 3 }).backward();
    return read(parallel.module);
  },
  'passes inside noSync alone': async (rank) => {
    const parallel = await create();
    parallel.noSync(() => parallel.forward({ left: rank, right: 1, shared: 1 }).backward());
    return read(parallel.module);
  },
  'noSync left by an error': async (rank) => {
    const parallel = await create();
    try {
      parallel.noSync(() => {
        throw new RangeError('planned');
      });
    } catch {
      parallel.forward({ left: rank, right: rank, shared: rank }).backward();
    }
    return read(parallel.module);
  },
  'a model that was detached': async (rank) => {
    const parallel = await create();
    const model = parallel.detach();
    model.forward({ left: rank, right: 1, shared: 1 }).backward();
    return read(model);
  },
} satisfies Record<string, (rank: number) => Promise<Gradients>>;

async function observe(context: RankInThread): Promise<Record<string, Gradients>> {
  const found: Record<string, Gradients> = {};
  for (const [name, gradientsOn] of Object.entries(cases))
    found[name] = await gradientsOn(context.rank);
  return found;
}

/**
 * The gradient of one element of each parameter on ranks 0, 1 and 2. All elements of a parameter have the same
 * gradient.
 */
type Expected = Readonly<Record<'left' | 'right' | 'shared', readonly [number, number, number]>>;

const everywhere = (value: number): readonly [number, number, number] => [value, value, value];
const own = [0, 1, 2] as const;

const expected: Readonly<Record<keyof typeof cases, Expected>> = {
  'ranks that use different branches': {
    left: everywhere((1 + 3) / 3),
    right: everywhere(2 / 3),
    shared: everywhere(1),
  },
  'two parameters that only rank 0 leaves out': {
    left: everywhere(2),
    right: everywhere(4),
    shared: everywhere(3),
  },
  'a gradient that rank 0 alone has read before': {
    left: everywhere((3 + 6 + 6) / 3),
    right: everywhere(0),
    shared: everywhere(3),
  },
  'a bucket for each parameter, where no rank uses the same one': {
    left: everywhere(1),
    right: everywhere(1),
    shared: everywhere(1),
  },
  'two losses of different branches, without findUnusedParameters': {
    left: everywhere(1),
    right: everywhere(1),
    shared: everywhere(3),
  },
  'losses in another order on each rank, without findUnusedParameters': {
    left: everywhere(3),
    right: everywhere(6),
    shared: everywhere(9),
  },
  "a hook of the user's, which sees what is this rank's": {
    left: everywhere(1 + 2),
    right: everywhere(6),
    shared: everywhere(6),
  },
  'passes inside noSync alone': { left: own, right: everywhere(1), shared: everywhere(1) },
  'noSync left by an error': { left: everywhere(1), right: everywhere(1), shared: everywhere(1) },
  'a model that was detached': { left: own, right: everywhere(1), shared: everywhere(1) },
};

describe('gradients on 3 ranks are the mean of the ranks, also with', () => {
  let ranks: readonly Record<string, Gradients>[] = [];

  beforeAll(async () => {
    ranks = await onRanks(3, observe);
  });

  it.each(Object.entries(expected))('%s', (name, { left, right, shared }) => {
    expect(ranks).toHaveLength(3);
    ranks.forEach((rank, index) => {
      const of = (elements: number, values: readonly number[]): number[] =>
        Array.from({ length: elements }, () => Math.fround(values[index] ?? 0));
      expect(rank[name], `on rank ${index}`).toEqual({
        left: of(5, left),
        right: of(5, right),
        shared: of(3, shared),
      });
    });
  });
});
