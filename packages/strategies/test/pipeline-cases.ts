import { manualSeed, optim, subscribe, tensor } from '@shardwise/core';
import {
  formatAction,
  parallelize,
  pipeline,
  pipelineSchedule,
  type Schedule,
  type ScheduleName,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { expectAsOneRank, oncePerKey, type Trained } from './as-one-rank.ts';
import {
  Language,
  languageBatch,
  languageLoss,
  type LanguageOptions,
} from './ranks/pipeline-models.ts';

export interface PipelineTask extends LanguageOptions {
  readonly schedule: ScheduleName | Schedule;
  readonly cut: readonly string[];
  readonly microbatches: number;
  readonly rows: number;
}

const steps = 3;

/** Trains on one rank that accumulates microbatches. */
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
  return { losses, state: await stateOf(model) };
}

/** Trains as a rank of a pipeline. */
async function trainPiped(task: PipelineTask) {
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
  return { losses, state: await stateOf(model.module), held, actions };
}

/** The modules at which the test model is cut, for each number of stages. */
export const cuts = {
  1: [],
  2: ['blocks.2'],
  3: ['blocks.1', 'blocks.3'],
  4: ['blocks.1', 'blocks.2', 'norm'],
  6: ['blocks.0', 'blocks.1', 'blocks.2', 'blocks.3', 'head'],
  8: ['positions', 'blocks.0', 'blocks.1', 'blocks.2', 'blocks.3', 'norm', 'head'],
} as const;

/** What one rank has trained. It knows neither stages nor schedules. */
const alone = oncePerKey(trainAlone, onCpu, ({ schedule: _, cut: __, ...task }) =>
  JSON.stringify(task),
);

/** Trains on `size` ranks. Expects the results of one rank that accumulates the same microbatches. */
export async function expectSameAsOneRank(size: number, task: PipelineTask): Promise<void> {
  const options = { axes: [{ name: 'pp', size }], ...onCpu };
  const ranks = await onRanks(size, () => trainPiped(task), options);
  expectAsOneRank(ranks, await alone(task), { rtol: 0, atol: 1e-5 }, { rtol: 0, atol: 2e-5 });
  const { schedule, cut, microbatches } = task;
  const stagesPerRank = (cut.length + 1) / size;
  const planned =
    typeof schedule === 'string'
      ? pipelineSchedule(schedule, { ranks: size, stagesPerRank, microbatches })
      : schedule;
  for (const [index, { losses, actions }] of ranks.entries()) {
    const once = (planned.actions[index] ?? [])
      .flatMap((action) => (action.kind === 'overlap' ? action.actions : [action]))
      .map(formatAction);
    expect(actions).toEqual([...once, ...once, ...once]);
    expect(losses).toEqual(ranks[0]?.losses);
  }
  // One rank holds each parameter.
  const held = ranks.flatMap((rank) => rank.held);
  expect(new Set(held).size).toBe(held.length);
}
