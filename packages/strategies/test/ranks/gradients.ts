import { nn, optim, type Tensor } from '@shardwise/core';
import type { RankContext } from '@shardwise/testing/ranks';
import { type DistributedDataParallelOptions, ddp, parallelize } from '@shardwise/strategies';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

/** The gradients of one rank, by parameter. */
export const gradients = z.record(z.string(), z.array(z.number()));

export type Gradients = z.infer<typeof gradients>;

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
export const cases = {
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

export async function main(context: RankContext): Promise<Record<string, Gradients>> {
  await join(context);
  const found: Record<string, Gradients> = {};
  for (const [name, gradientsOn] of Object.entries(cases))
    found[name] = await gradientsOn(context.rank);
  return found;
}
