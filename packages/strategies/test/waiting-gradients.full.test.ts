import {
  nn,
  optim,
  type ShardwiseError,
  type Strategy,
  type Tensor,
  tensor,
} from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

const f16 = { parameterDtype: 'f16', reduceDtype: 'f32' } as const;

const strategies: Readonly<Record<string, () => Strategy>> = {
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in f16': () => zero({ stage: 1, mixedPrecision: f16 }),
  'FSDP in f16': () => fsdp({ mixedPrecision: f16 }),
};

/** The message and the code of an error. Null if there was none. */
type Observations = Record<
  string,
  {
    /**
     * The error of a step after backward passes that were all inside noSync. `thenOutside` is that of a step after
     * another pass outside noSync.
     */
    onlyInside: ShardwiseError | null;
    thenOutside: ShardwiseError | null;
    /** The error of clipping between a pass that is reduced and one that waits. */
    clipped: ShardwiseError | null;
    /**
     * The parameters after passes that add to clipped gradients. `factors` has them when the losses contain the factors
     * instead.
     */
    clippedThenAdded: number[];
    factors: number[];
    /**
     * The losses of a training whose last pass does not use all parameters with waiting gradients. `together` has those
     * without noSync.
     */
    waited: number[];
    together: number[];
  }
>;

/** A model with two branches of the same shapes. */
class Branches extends nn.Module {
  readonly left = constant(0.3);
  readonly right = constant(0.6);

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor, branch: 'left' | 'right'): Tensor {
    return this[branch].forward(x);
  }
}

async function observe({ rank }: RankInThread): Promise<Observations> {
  const found: Observations = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    found[name] = {
      ...(await noSyncOnly(strategy(), rank)),
      clipped: await clippedBetween(strategy(), rank),
      clippedThenAdded: await added(strategy(), true),
      factors: await added(strategy(), false),
      waited: await accumulated(strategy(), rank, true),
      together: await accumulated(strategy(), rank, false),
    };
  }
  return found;
}

async function noSyncOnly(
  strategy: Strategy,
  rank: number,
): Promise<{ onlyInside: ShardwiseError | null; thenOutside: ShardwiseError | null }> {
  const parallel = await parallelize(new Branches(), strategy);
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  const pass = (): void =>
    parallel
      .forward(tensor([[1, rank]]), 'left')
      .sum()
      .backward();
  parallel.noSync(pass);
  const onlyInside = await failureOf(optimizer.step());
  pass();
  return { onlyInside, thenOutside: await failureOf(optimizer.step()) };
}

async function clippedBetween(strategy: Strategy, rank: number): Promise<ShardwiseError | null> {
  const parallel = await parallelize(new Branches(), strategy);
  const pass = (): void =>
    parallel
      .forward(tensor([[1, rank]]), 'left')
      .sum()
      .backward();
  pass();
  parallel.noSync(pass);
  return failureOf((async () => optim.clipGradNorm(parallel.module.parameters(), 0.1))());
}

/** The gradients of the first pass are [1, 2] in each row. Their norm is the root of 10, so clipping halves them. */
async function added(strategy: Strategy, clips: boolean): Promise<number[]> {
  const parallel = await parallelize(new Branches(), strategy);
  const { left } = parallel.module;
  const optimizer = new optim.SGD([left.weight], { lr: 1 });
  const pass = (factor: number): void =>
    parallel
      .forward(tensor([[factor, 2 * factor]]), 'left')
      .sum()
      .backward();
  pass(clips ? 1 : 0.5);
  if (clips) optim.clipGradNorm([left.weight], Math.sqrt(10) / 2);
  parallel.noSync(() => pass(2));
  pass(4);
  await optimizer.step();
  return Array.from(await left.weight.data(), Number);
}

/** The first of two passes uses the left branch, and the second one the right branch. */
async function accumulated(strategy: Strategy, rank: number, waits: boolean): Promise<number[]> {
  const parallel = await parallelize(new Branches(), strategy);
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    const pass = (branch: 'left' | 'right'): Tensor => {
      const loss = parallel
        .forward(tensor([[1, rank + step]]), branch)
        .square()
        .sum();
      loss.backward();
      return loss;
    };
    const first = waits ? parallel.noSync(() => pass('left')) : pass('left');
    const sum = first.add(pass('right'));
    await optimizer.step();
    losses.push(await sum.item());
  }
  return losses;
}

function constant(value: number): nn.Linear {
  const layer = new nn.Linear(2, 2, { bias: false });
  layer.weight.assign(
    tensor([
      [value, -value],
      [value, value],
    ]),
  );
  return layer;
}

const size = 2;

let ranks: readonly Observations[] = [];

beforeAll(async () => {
  ranks = await onRanks(size, observe);
});

describe.each(Object.keys(strategies))('gradients that wait for their reduction: %s', (name) => {
  it('are not left out of a step: it is refused while no pass outside of noSync has averaged them', () => {
    for (const rank of ranks) {
      expect(rank[name]?.onlyInside?.code).toBe('TENSOR_STATE');
      expect(rank[name]?.onlyInside?.message).toMatch(
        /1 of 2 parameters have gradients of this rank alone.*: left\.weight\. Call the last backward\(\) of a step outside of noSync/,
      );
      expect(rank[name]?.thenOutside).toBeNull();
    }
  });

  it('can have no other gradient put in their place, as by clipping', () => {
    for (const rank of ranks) {
      expect(rank[name]?.clipped?.message).toMatch(
        /wait to be added to it\. Clip and unscale gradients after the last backward\(\)/,
      );
    }
  });

  it('add to gradients that were clipped before', () => {
    for (const rank of ranks) {
      expect(rank[name]?.clippedThenAdded).toHaveLength(4);
      rank[name]?.clippedThenAdded.forEach((value, index) => {
        expect(value).toBeCloseTo(rank[name]?.factors[index] ?? NaN, 2);
      });
    }
  });

  it('are averaged with the next pass outside of noSync, also of parameters that it does not use', () => {
    for (const rank of ranks) {
      expect(rank[name]?.together).toHaveLength(3);
      expect(rank[name]?.waited).toEqual(rank[name]?.together);
    }
  });
});
