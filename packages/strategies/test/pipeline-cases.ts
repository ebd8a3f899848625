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
import { onCpu } from '../../../test/support/on-cpu.ts';
import {
  Language,
  languageBatch,
  languageLoss,
  type LanguageOptions,
} from './ranks/pipeline-models.ts';

interface Trained {
  losses: number[];
  parameters: Record<string, number[]>;
}

export interface PipelineTask extends LanguageOptions {
  readonly schedule: ScheduleName | Schedule;
  readonly cut: readonly string[];
  readonly microbatches: number;
  readonly rows: number;
}

type Outcome = Record<
  string,
  {
    alone: Trained | null;
    piped: Trained;
    held: string[];
    actions: string[];
  }
>;

const steps = 3;

/** Trains as a pipeline, and as one rank that accumulates microbatches. */
async function trainEach(
  rank: number,
  tasks: Readonly<Record<string, PipelineTask>>,
): Promise<Outcome> {
  const found: Outcome = {};
  for (const [name, task] of Object.entries(tasks)) {
    const alone = rank === 0 ? await trainAlone(task) : null;
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

/** The modules at which the test model is cut, for each number of stages. */
export const cuts = {
  1: [],
  2: ['blocks.2'],
  3: ['blocks.1', 'blocks.3'],
  4: ['blocks.1', 'blocks.2', 'norm'],
  6: ['blocks.0', 'blocks.1', 'blocks.2', 'blocks.3', 'head'],
  8: ['positions', 'blocks.0', 'blocks.1', 'blocks.2', 'blocks.3', 'norm', 'head'],
} as const;

/** Trains on `size` ranks. Expects the results of one rank that accumulates the same microbatches. */
export async function expectSameAsOneRank(
  size: number,
  tasks: Readonly<Record<string, PipelineTask>>,
): Promise<void> {
  const options = { axes: [{ name: 'pp', size }], ...onCpu };
  const ranks = await onRanks(size, ({ rank }) => trainEach(rank, tasks), options);
  for (const [name, { schedule, cut, microbatches }] of Object.entries(tasks)) {
    const { alone } = ranks[0]?.[name] ?? expect.fail(name);
    if (alone === null) return expect.fail(name);
    const stagesPerRank = (cut.length + 1) / size;
    const planned =
      typeof schedule === 'string'
        ? pipelineSchedule(schedule, { ranks: size, stagesPerRank, microbatches })
        : schedule;
    for (const [index, rank] of ranks.entries()) {
      const own = planned.actions[index] ?? [];
      const once = own
        .flatMap((action) => (action.kind === 'overlap' ? action.actions : [action]))
        .map(formatAction);
      expect(rank[name]?.actions, `timeline of ${name}`).toEqual([...once, ...once, ...once]);
      const { piped } = rank[name] ?? expect.fail(name);
      expectClose(piped.losses, alone.losses, 1e-5, `losses of ${name}`);
      for (const [parameter, values] of Object.entries(alone.parameters)) {
        expectClose(piped.parameters[parameter] ?? [], values, 2e-5, `${parameter} of ${name}`);
      }
      // The results are the same bits on all ranks.
      expect(piped, name).toEqual(ranks[0]?.[name]?.piped);
    }
    const held = ranks.flatMap((rank) => rank[name]?.held ?? []);
    expect(new Set(held).size, `ranks that hold a parameter of ${name}`).toBe(held.length);
  }
}

function expectClose(
  found: readonly number[],
  expected: readonly number[],
  tolerance: number,
  what: string,
): void {
  expect(found, what).toHaveLength(expected.length);
  const largest = Math.max(
    ...expected.map((value, at) => Math.abs(value - (found[at] ?? Number.NaN))),
  );
  expect(largest, what).toBeLessThanOrEqual(tolerance * Math.max(1, ...expected.map(Math.abs)));
}
