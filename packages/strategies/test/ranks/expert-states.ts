import { createMesh } from '@shardwise/collectives';
import { manualSeed, nn, optim, setRank, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  compose,
  constructSharded,
  expertParallel,
  fsdp,
  parallelize,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batch, ExpertModel, rows, settings } from './expert-models.ts';

/** Grids of four ranks. `shares` is the number of ranks that have different rows. */
export const grids = {
  'dp × ep, FSDP': {
    axes: ['dp', 'ep'],
    strategy: () => compose(expertParallel(), fsdp()),
    shares: 4,
  },
  'tp × dp for experts, dp for the batch': {
    axes: ['dp', 'tp'],
    strategy: () => expertParallel({ axis: ['tp', 'dp'], sameTokens: ['tp'] }),
    shares: 2,
  },
} as const;

export const task = z.object({
  directory: z.string(),
  grid: z.literal(['dp × ep, FSDP', 'tp × dp for experts, dp for the batch']),
});
/** The losses of this rank's rows in three steps. */
export const losses = z.array(z.number());

export const build = (): ExpertModel => new ExpertModel({ gate: nn.topKGate() });

/** Trains for two steps, saves a checkpoint and makes a third step. No rank builds the whole model. */
export async function main(context: RankContext): Promise<number[]> {
  const { directory, grid } = task.parse(context.data);
  const { axes: names, strategy: chosen, shares } = grids[grid];
  const { group } = await join(context);
  const axes = names.map((name) => ({ name, size: 2 }));
  setRank({ device: currentSession().backend, mesh: await createMesh(group, axes) });
  manualSeed(0);
  const strategy = chosen();
  const model = constructSharded(build, strategy);
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), settings);
  const count = rows / shares;
  // Ranks that have the same rows are neighbours.
  const start = Math.floor((context.rank * shares) / context.size) * count;
  const step = (index: number): Promise<number> =>
    takeStep((x) => parallel.forward(x), optimizer, batch(index, start, count));
  const found = [await step(0), await step(1)];
  await checkpoints.save(directory, { step: 2, model, optimizer }, { group });
  return [...found, await step(2)];
}

export async function takeStep(
  forward: (x: Tensor) => Tensor,
  optimizer: optim.AdamW,
  x: Tensor,
): Promise<number> {
  optimizer.zeroGrad();
  const loss = forward(x).sub(x.mul(0.5)).square().mean();
  loss.backward();
  await optimizer.step();
  return loss.item();
}
