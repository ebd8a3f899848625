import { describe, it } from 'vitest';
import { compareWithOneRank } from './compare-with-one-rank.ts';
import { drawnTasks } from './draw-context-tasks.ts';
import { testMs } from './time-limits.ts';

describe('context parallelism trains as one rank does', () => {
  it.each([
    [2, 3],
    [3, 2],
    [4, 3],
  ])(
    'on %i ranks, in %i trainings that were drawn',
    async (ranks, count) => {
      for (const task of drawnTasks(ranks, count)) await compareWithOneRank(ranks, task);
    },
    testMs,
  );
});
