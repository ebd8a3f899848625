import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hostPages, manualSeed, optim, type ProcessGroup, type Strategy } from '@shardwise/core';
import {
  ddp,
  fsdp,
  OffloadedOptimizer,
  parallelize,
  powerSgdHook,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { globalBatch, tasks } from './ranks/models.ts';

/** The number of updates before the checkpoint, and after it. */
const half = 6;

interface Training {
  readonly strategy: Strategy;
  readonly scaler?: optim.DynamicLossScaler;
  readonly states: checkpoints.Statefuls;
  /** Whether states and gradients are kept outside the device. */
  readonly offloads?: boolean;
}

const scaled = (strategy: Strategy): Training => {
  // The first steps overflow, and the scale grows again soon after.
  const scaler = new optim.DynamicLossScaler({
    initialScale: 2 ** 20,
    scaleWindow: 3,
    hysteresis: 2,
  });
  return { strategy, scaler, states: { scaler } };
};
const f16 = { parameterDtype: 'f16' } as const;

const trainings = {
  'DDP with PowerSGD': () => {
    const hook = powerSgdHook({ startIteration: 2, minCompressionRate: 0.5 });
    return { strategy: ddp({ commHook: hook, findUnusedParameters: true }), states: { hook } };
  },
  'ZeRO-2 in f16 with a scaled loss': () => scaled(zero({ stage: 2, mixedPrecision: f16 })),
  'FSDP in f16 with a scaled loss': () => scaled(fsdp({ mixedPrecision: f16 })),
  'FSDP in f16 with a scaled loss, offloaded': () => ({
    ...scaled(fsdp({ mixedPrecision: f16 })),
    offloads: true,
  }),
} as const satisfies Record<string, () => Training>;

interface Stretch {
  readonly first?: number;
  readonly stop: number;
  readonly saveTo?: { readonly folder: string; readonly group: ProcessGroup };
  readonly from?: string;
  /** The group of ranks that load their states. */
  readonly group?: ProcessGroup;
}

async function train(
  makeTraining: () => Training,
  { rank, size }: RankInThread,
  { first = 0, stop, saveTo, from, group }: Stretch,
): Promise<number[]> {
  // The seed differs, so that a value that was not loaded shows.
  manualSeed(first);
  const task = tasks['an odd MLP'];
  const model = task.build();
  const { strategy, scaler, states: own, offloads = false } = makeTraining();
  const parallel = await parallelize(model, strategy);
  const adam = new optim.AdamW(model.parameters(), { lr: 0.02 });
  const pages = { states: hostPages(), gradients: hostPages(), chunkBytes: 128 };
  const optimizer = offloads ? new OffloadedOptimizer(model, adam, pages) : adam;
  const schedule = new optim.LearningRateScheduler(optimizer, optim.cosineSchedule(4 * half));
  const states = { ...own, schedule };
  if (from !== undefined) {
    const checkpoint = await checkpoints.load(from);
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
    if (group !== undefined) await checkpoints.loadStates(checkpoint, states, { group });
  }
  const share = globalBatch / size;
  const losses: number[] = [];
  for (let step = first; step < stop; step++) {
    optimizer.zeroGrad();
    const { x, y } = task.batch(step, rank * share, (rank + 1) * share);
    const loss = task.loss(parallel.forward(x), y);
    (scaler?.scale(loss) ?? loss).backward();
    if (scaler === undefined) await optimizer.step();
    else {
      await scaler.step(optimizer);
      scaler.update();
    }
    schedule.step();
    losses.push(await loss.item());
  }
  if (saveTo !== undefined) {
    const contents = { step: stop, model, optimizer, states };
    await checkpoints.save(saveTo.folder, contents, { group: saveTo.group });
  }
  return losses;
}

let directory = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shardwise-states-'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

it.each(Object.entries<() => Training>(trainings))(
  'a training that goes on from a checkpoint of all its states has the losses of the uninterrupted one, bit for bit, and would have others without these states: %s',
  async (name, training) => {
    const folder = join(directory, name);
    await onRanks(2, async (place) => {
      const { group } = place;
      const stop = 2 * half;
      const uninterrupted = await train(training, place, { stop });
      const first = await train(training, place, { stop: half, saveTo: { folder, group } });
      const second = await train(training, place, { first: half, stop, from: folder, group });
      const forgotten = await train(training, place, { first: half, stop, from: folder });
      expect(uninterrupted).toHaveLength(stop);
      expect([...first, ...second]).toEqual(uninterrupted);
      expect(forgotten).not.toEqual(uninterrupted.slice(half));
    });
  },
);
