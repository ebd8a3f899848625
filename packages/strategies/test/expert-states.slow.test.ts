import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, nn, optim, setRank, type Tensor } from '@shardwise/core';
import {
  compose,
  constructSharded,
  expertParallel,
  fsdp,
  parallelize,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { batch, ExpertModel, rows, settings } from './ranks/expert-models.ts';

/** Grids of four ranks. `shares` is the number of ranks that have different rows. */
const grids = {
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
const gridNames = ['dp × ep, FSDP', 'tp × dp for experts, dp for the batch'] as const;

const build = (): ExpertModel => new ExpertModel({ gate: nn.topKGate() });

/** Trains for two steps, saves a checkpoint and makes a third step. No rank builds the whole model. */
async function trainInParts(
  { rank, size, group }: RankInThread,
  grid: keyof typeof grids,
  directory: string,
): Promise<number[]> {
  const { strategy: chosen, shares } = grids[grid];
  manualSeed(0);
  const strategy = chosen();
  const model = constructSharded(build, strategy);
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), settings);
  const count = rows / shares;
  // Ranks that have the same rows are neighbours.
  const start = Math.floor((rank * shares) / size) * count;
  const step = (index: number): Promise<number> =>
    takeStep((x) => parallel.forward(x), optimizer, batch(index, start, count));
  const found = [await step(0), await step(1)];
  await checkpoints.save(directory, { step: 2, model, optimizer }, { group });
  return [...found, await step(2)];
}

async function takeStep(
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

describe.each(gridNames)('experts that four ranks build and train in parts: %s', (grid) => {
  let directory = '';
  let means: readonly number[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-experts-'));
    const axes = grids[grid].axes.map((name) => ({ name, size: 2 }));
    const saved = join(directory, 'step');
    const ranks = await onRanks(4, (place) => trainInParts(place, grid, saved), { axes });
    means = [0, 1, 2].map((step) => ranks.reduce((sum, own) => sum + (own[step] ?? NaN), 0) / 4);
    setRank({ device: await cpu() });
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('train as on one rank', async () => {
    manualSeed(0);
    const model = build();
    const optimizer = new optim.AdamW(model.parameters(), settings);
    for (const [step, mean] of means.entries()) {
      const loss = await takeStep((x) => model.forward(x), optimizer, batch(step, 0, rows));
      expect(loss / mean).toBeCloseTo(1, 4);
    }
  });

  it('go on from their checkpoint on one rank, which has all experts', async () => {
    manualSeed(5);
    const model = build();
    const optimizer = new optim.AdamW(model.parameters(), settings);
    const checkpoint = await checkpoints.load(join(directory, 'step'));
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
    const loss = await takeStep((x) => model.forward(x), optimizer, batch(2, 0, rows));
    expect(loss / (means[2] ?? NaN)).toBeCloseTo(1, 4);
  });
});
