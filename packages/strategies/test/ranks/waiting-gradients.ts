import { nn, optim, type Strategy, tensor, type Tensor } from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { failure, failureOf } from './failure.ts';
import { join } from '../../../../test/ranks/join.ts';

const f16 = { parameterDtype: 'f16', reduceDtype: 'f32' } as const;

export const strategies: Readonly<Record<string, () => Strategy>> = {
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in f16': () => zero({ stage: 1, mixedPrecision: f16 }),
  'FSDP in f16': () => fsdp({ mixedPrecision: f16 }),
};

/** The message and the code of an error. Null if there was none. */
export const observations = z.record(
  z.string(),
  z.object({
    /**
     * The error of a step after backward passes that were all inside noSync. `thenOutside` is that of a step after
     * another pass outside noSync.
     */
    onlyInside: failure,
    thenOutside: failure,
    /** The error of clipping between a pass that is reduced and one that waits. */
    clipped: failure,
    /**
     * The parameters after passes that add to clipped gradients. `factors` has them when the losses contain the factors
     * instead.
     */
    clippedThenAdded: z.array(z.number()),
    factors: z.array(z.number()),
    /**
     * The losses of a training whose last pass does not use all parameters with waiting gradients. `together` has those
     * without noSync.
     */
    waited: z.array(z.number()),
    together: z.array(z.number()),
  }),
);

/** A model with two branches of the same shapes. */
class Branches extends nn.Module {
  readonly left = constant(0.3);
  readonly right = constant(0.6);

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor, branch: 'left' | 'right'): Tensor {
    return this[branch].forward(x);
  }
}

export async function main({
  rank,
  ...context
}: RankContext): Promise<z.infer<typeof observations>> {
  await join({ rank, ...context });
  const found: z.infer<typeof observations> = {};
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
): Promise<{ onlyInside: z.infer<typeof failure>; thenOutside: z.infer<typeof failure> }> {
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

async function clippedBetween(strategy: Strategy, rank: number): Promise<z.infer<typeof failure>> {
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
