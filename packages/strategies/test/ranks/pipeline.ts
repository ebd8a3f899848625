import { manualSeed, optim, subscribe, tensor } from '@shardwise/core';
import { parallelize, pipeline, type Schedule, type ScheduleName } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { Language, languageBatch, languageLoss, type LanguageOptions } from './pipeline-models.ts';

export const trained = z.object({
  losses: z.array(z.number()),
  parameters: z.record(z.string(), z.array(z.number())),
});

export type Trained = z.infer<typeof trained>;

export interface PipelineTask extends LanguageOptions {
  readonly schedule: ScheduleName | Schedule;
  readonly cut: readonly string[];
  readonly microbatches: number;
  readonly rows: number;
}

export const outcome = z.record(
  z.string(),
  z.object({
    alone: trained.nullable(),
    piped: trained,
    held: z.array(z.string()),
    actions: z.array(z.string()),
  }),
);

const steps = 3;

/** Trains as a pipeline, and as one rank that accumulates microbatches. */
export async function main(
  context: RankContext<unknown, Readonly<Record<string, PipelineTask>>>,
): Promise<z.infer<typeof outcome>> {
  await join(context, 'cpu', 'pp');
  const found: z.infer<typeof outcome> = {};
  for (const [name, task] of Object.entries(context.data)) {
    const alone = context.rank === 0 ? await trainAlone(task) : null;
    found[name] = { alone, ...(await trainPiped(task)) };
  }
  return found;
}

async function trainAlone(task: PipelineTask): Promise<Trained> {
  manualSeed(1);
  const model = new Language(task);
  manualSeed(2);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const { ids, targets } = languageBatch(step, task.rows);
    optimizer.zeroGrad();
    let total = 0;
    const { microbatches, rows } = task;
    let start = 0;
    for (let microbatch = 0; microbatch < microbatches; microbatch++) {
      const count = Math.floor(rows / microbatches) + (microbatch < rows % microbatches ? 1 : 0);
      const x = tensor(ids.slice(start, start + count), 'i32');
      const y = tensor(targets.slice(start, start + count), 'i32');
      start += count;
      const loss = languageLoss(model.forward(x), y).mul(count / rows);
      loss.backward();
      total += await loss.item();
    }
    optim.clipGradNorm(model.parameters(), 0.5);
    await optimizer.step();
    losses.push(total);
  }
  return { losses, parameters: await valuesOf(model) };
}

async function trainPiped(
  task: PipelineTask,
): Promise<{ piped: Trained; held: string[]; actions: string[] }> {
  manualSeed(1);
  const { schedule, cut, microbatches } = task;
  const model = await parallelize(
    new Language(task),
    pipeline({ schedule, cut, microbatches, loss: languageLoss }),
  );
  manualSeed(2);
  const optimizer = new optim.AdamW(model.module.parameters(), { lr: 1e-2 });
  const losses: number[] = [];
  const actions: string[] = [];
  const unsubscribe = subscribe(({ category, name }) => {
    if (category === 'stage' && /^\d+[FBIW]\d+$/.test(name)) actions.push(name);
  });
  for (let step = 0; step < steps; step++) {
    const { ids, targets } = languageBatch(step, task.rows);
    optimizer.zeroGrad();
    const loss = model.forward(tensor(ids, 'i32'), tensor(targets, 'i32'));
    loss.backward();
    optim.clipGradNorm(model.module.parameters(), 0.5);
    await optimizer.step();
    losses.push(await loss.item());
  }
  unsubscribe();
  const held = model.module
    .namedParameters()
    .filter(([, parameter]) => optimizer.stateOf(parameter) !== undefined)
    .map(([name]) => name);
  return { piped: { losses, parameters: await valuesOf(model.module) }, held, actions };
}

async function valuesOf(model: Language): Promise<Record<string, number[]>> {
  const state = await model.stateDict();
  return Object.fromEntries(
    Object.entries(state).map(([name, { bytes }]) => [
      name,
      Array.from(new Float32Array(bytes.slice().buffer)),
    ]),
  );
}
