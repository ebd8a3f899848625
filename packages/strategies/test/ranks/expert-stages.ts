import { createMesh } from '@shardwise/collectives';
import { manualSeed, type MeshAxis, nn, optim, setRank, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { compose, ddp, expertParallel, parallelize, pipeline } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batch, features, rows, settings, type Step, steps } from './expert-models.ts';

class Block extends nn.Module {
  norm = new nn.LayerNorm(features);
  // The loss is a mean over tokens, so the mean over microbatches equals that of the batch.
  experts = new nn.MixtureOfExperts(features, 6, 4, { zLoss: 0.05 });

  forward(x: Tensor): Tensor {
    return x.add(this.experts.forward(this.norm.forward(x)));
  }
}

export const stack = (): nn.Sequential =>
  new nn.Sequential(new nn.Linear(features, features), new Block(), new Block(), new Block());

/** The loss includes the auxiliary losses of the layers of all stages. */
export const lossOf =
  (model: nn.Module) =>
  (y: Tensor, targets: Tensor): Tensor =>
    y.sub(targets).square().mean().add(nn.auxiliaryLoss(model));

export const outcome = z.array(z.object({ loss: z.number(), norm: z.number() }));

export async function main({
  data,
  ...context
}: RankContext<unknown, readonly MeshAxis[]>): Promise<Step[]> {
  const { group } = await join({ ...context, data });
  const { backend: device } = currentSession();
  const mesh = await createMesh(group, data);
  setRank({ device, mesh });
  manualSeed(context.rank);
  const model = stack();
  const loss = lossOf(model);
  const stages = pipeline({ schedule: '1f1b', cut: ['2'], microbatches: 2, loss });
  const isShared = data.some(({ name }) => name === 'dp');
  // The experts are on the ranks of tp, which have the same rows, or on those of ep, which have different rows.
  const isFolded = data.some(({ name }) => name === 'tp');
  const experts = isFolded ? expertParallel({ axis: 'tp', sameTokens: ['tp'] }) : expertParallel();
  const inner = compose(experts, stages);
  const parallel = await parallelize(model, isShared ? compose(inner, ddp()) : inner);
  const places = data.filter(({ name }) => name === 'dp' || name === 'ep');
  const parts = places.reduce((product, { size }) => product * size, 1);
  const part = places.reduce((at, { name, size }) => at * size + mesh.coordinate(name), 0);
  const count = rows / parts;
  return trainStack(model, (x, y) => parallel.forward(x, y), part * count, count);
}

export async function trainStack(
  model: nn.Sequential,
  lossFor: (x: Tensor, targets: Tensor) => Tensor,
  start: number,
  count: number,
): Promise<Step[]> {
  const optimizer = new optim.AdamW(model.parameters(), settings);
  const found: Step[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const x = batch(step, start, count);
    const loss = lossFor(x, batch(step + 1, start, count));
    loss.backward();
    const norm = optim.clipGradNorm(model.parameters(), 0.5);
    await optimizer.step();
    found.push({ loss: await loss.item(), norm: await norm.item() });
  }
  return found;
}
