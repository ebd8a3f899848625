import { describe, it } from 'vitest';
import { compareWithOneRank } from './compare-with-one-rank.ts';
import { contextParallelTable } from './context-parallel-table.ts';
import { drawnTasks } from './draw-context-tasks.ts';

const LIMIT_MS = 1_800_000;

contextParallelTable({ hasAll: true });

describe('context parallelism trains as one rank does', () => {
  it.each([
    [2, 30],
    [3, 18],
    [4, 30],
    [6, 12],
  ])(
    'on %i ranks, in %i trainings that were drawn',
    async (ranks, count) => {
      for (const task of drawnTasks(ranks, count)) await compareWithOneRank(ranks, task);
    },
    LIMIT_MS,
  );
});
