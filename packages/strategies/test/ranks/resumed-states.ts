import { hostPages, manualSeed, optim, type Strategy } from '@shardwise/core';
import {
  ddp,
  fsdp,
  OffloadedOptimizer,
  parallelize,
  powerSgdHook,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { globalBatch, tasks } from './models.ts';

/** The number of updates before the checkpoint, and after it. */
export const half = 6;

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

export type TrainingName = keyof typeof trainings;
export const trainingNames: readonly TrainingName[] = Object.keys(trainings).filter(
  (name): name is TrainingName => Object.hasOwn(trainings, name),
);

export const observations = z.record(
  z.string(),
  z.object({
    uninterrupted: z.array(z.number()),
    resumed: z.array(z.number()),
    /** The losses of the second half without the saved states. */
    forgotten: z.array(z.number()),
  }),
);

export async function main(context: RankContext): Promise<z.infer<typeof observations>> {
  const { group } = await join(context);
  const directory = z.string().parse(context.data);
  const found: z.infer<typeof observations> = {};
  for (const name of trainingNames) {
    const folder = `${directory}/${name}`;
    const uninterrupted = await train(name, context, { stop: 2 * half });
    const first = await train(name, context, { stop: half, saveTo: { folder, group } });
    const second = await train(name, context, { first: half, stop: 2 * half, from: folder, group });
    const forgotten = await train(name, context, { first: half, stop: 2 * half, from: folder });
    found[name] = { uninterrupted, resumed: [...first, ...second], forgotten };
  }
  return found;
}

interface Stretch {
  readonly first?: number;
  readonly stop: number;
  readonly saveTo?: { readonly folder: string; readonly group: Group };
  readonly from?: string;
  /** The group of ranks that load their states. */
  readonly group?: Group;
}
type Group = Awaited<ReturnType<typeof join>>['group'];

async function train(
  name: TrainingName,
  { rank, size }: RankContext,
  { first = 0, stop, saveTo, from, group }: Stretch,
): Promise<number[]> {
  // The seed differs, so that a value that was not loaded shows.
  manualSeed(first);
  const task = tasks['an odd MLP'];
  const model = task.build();
  const { strategy, scaler, states: own, offloads = false }: Training = trainings[name]();
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
