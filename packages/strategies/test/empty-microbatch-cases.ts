import { createThreadsWorld } from '@shardwise/collectives';
import { expect } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type Compared, type EmptyTasks, ofRank } from './ranks/empty-microbatches.ts';
import { trainingMs } from './time-limits.ts';

const moduleUrl = new URL('./ranks/empty-microbatches.ts', import.meta.url);

/** Trains on the ranks of a mesh. Expects on each of them what one rank computes with the rows that count. */
export async function expectAllAsAlone(data: EmptyTasks): Promise<void> {
  const size = data.axes.reduce((product, axis) => product * axis.size, 1);
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const found = await runRanks(size, moduleUrl, { world, data, timeoutMs: trainingMs });
  const ranks = z.array(ofRank).length(size).parse(found);
  for (const { place, tasks } of ranks) {
    expect(Object.keys(tasks)).toEqual(Object.keys(data.tasks));
    const first = ranks.find((other) => other.place === place);
    for (const [name, { piped }] of Object.entries(tasks)) {
      const alone = first?.tasks[name]?.alone ?? expect.fail(`no rank has trained ${name} alone`);
      expectAsAlone({ piped, alone }, name);
    }
  }
}

/** Expects what one rank computes with the rows that count. */
export function expectAsAlone({ piped, alone }: Compared, name: string): void {
  expect(alone.losses.length, name).toBeGreaterThan(0);
  expect(alone.parameters.length, name).toBeGreaterThan(20);
  for (const values of [alone.parameters, alone.outputs]) {
    expect(values.filter(Number.isNaN), name).toEqual([]);
  }
  for (const key of ['losses', 'evaluated', 'outputs', 'parameters'] as const) {
    expect(piped[key], `${key} of ${name}`).toHaveLength(alone[key].length);
    for (const [index, expected] of alone[key].entries()) {
      const value = piped[key][index];
      const what = `${key} ${index} of ${name}`;
      if (Number.isNaN(expected)) expect(value, what).toBeNaN();
      else expect(value, what).toBeCloseTo(expected, 4);
    }
  }
}
