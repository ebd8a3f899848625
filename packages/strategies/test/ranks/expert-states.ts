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
import { saveCheckpoint } from 'shardwise';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batch, ExpertModel, rows, settings } from './expert-models.ts';

export const task = z.object({ directory: z.string() });
/** Losses of this rank's rows, of three steps. */
export const losses = z.array(z.number());

export const build = (): ExpertModel => new ExpertModel({ gate: nn.topKGate() });

/** Two steps, a checkpoint, and a third step, of a model that no rank builds whole. */
export async function main(context: RankContext): Promise<number[]> {
  const { directory } = task.parse(context.data);
  const { group } = await join(context);
  const axes = [
    { name: 'dp', size: 2 },
    { name: 'ep', size: 2 },
  ];
  setRank({ device: currentSession().backend, mesh: await createMesh(group, axes) });
  manualSeed(0);
  const strategy = compose(expertParallel(), fsdp());
  const model = constructSharded(build, strategy);
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), settings);
  const count = rows / context.size;
  const step = (index: number): Promise<number> =>
    takeStep((x) => parallel.forward(x), optimizer, batch(index, context.rank * count, count));
  const found = [await step(0), await step(1)];
  await saveCheckpoint(directory, { step: 2, model, optimizer }, { group });
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
