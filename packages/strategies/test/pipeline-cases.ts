import { createThreadsWorld } from '@shardwise/collectives';
import { formatAction, pipelineSchedule } from '@shardwise/strategies';
import { expect } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { outcome, type PipelineTask } from './ranks/pipeline.ts';
import { trainingMs } from './time-limits.ts';

const moduleUrl = new URL('./ranks/pipeline.ts', import.meta.url);

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
  const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
  const options = { world, data: tasks, timeoutMs: trainingMs };
  const ranks = z.array(outcome).parse(await runRanks(size, moduleUrl, options));
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
