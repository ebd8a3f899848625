import { manualSeed, nn, optim, type Tensor } from '@shardwise/core';
import { compose, ddp, expertParallel, parallelize, pipeline } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { batch, features, rows, settings, type Step, steps } from './ranks/expert-models.ts';

class Block extends nn.Module {
  norm = new nn.LayerNorm(features);
  // The loss is a mean over tokens, so the mean over microbatches equals that of the batch.
  experts = new nn.MixtureOfExperts(features, 6, 4, { zLoss: 0.05 });

  forward(x: Tensor): Tensor {
    return x.add(this.experts.forward(this.norm.forward(x)));
  }
}

const stack = (): nn.Sequential =>
  new nn.Sequential(new nn.Linear(features, features), new Block(), new Block(), new Block());

/** The loss includes the auxiliary losses of the layers of all stages. */
const lossOf =
  (model: nn.Module) =>
  (y: Tensor, targets: Tensor): Tensor =>
    y.sub(targets).square().mean().add(nn.auxiliaryLoss(model));

async function trainInStages({ rank, mesh }: RankInThread): Promise<Step[]> {
  const { axes: data } = mesh;
  manualSeed(rank);
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

async function trainStack(
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

describe('experts in stages of a pipeline', () => {
  let alone: readonly Step[] = [];

  beforeAll(async () => {
    [alone = []] = await onRanks(1, () => {
      manualSeed(0);
      const model = stack();
      return trainStack(model, (x, y) => lossOf(model)(model.forward(x), y), 0, rows);
    });
  });

  it.each([
    ['pp × ep', [2, 2, 1], 'ep'],
    ['pp × ep × ddp', [2, 2, 2], 'ep'],
    ['pp × experts over tp', [2, 2, 1], 'tp'],
  ] as const)('%s train as on one rank', async (_, [pp, ep, dp], axis) => {
    const axes = [
      { name: 'pp', size: pp },
      ...(dp === 1 ? [] : [{ name: 'dp', size: dp }]),
      { name: axis, size: ep },
    ];
    const size = pp * ep * dp;
    const ranks = await onRanks(size, trainInStages, { axes });
    alone.forEach(({ loss, norm }, step) => {
      const mean = ranks.reduce((sum, each) => sum + (each[step]?.loss ?? NaN), 0) / size;
      expect(mean / loss, `loss of step ${step}`).toBeCloseTo(1, 4);
      for (const each of ranks) {
        expect((each[step]?.norm ?? NaN) / norm, `norm of step ${step}`).toBeCloseTo(1, 4);
      }
    });
  });
});
