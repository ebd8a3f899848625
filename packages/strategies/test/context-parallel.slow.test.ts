import { describe, it } from 'vitest';
import { compareWithOneRank } from './compare-with-one-rank.ts';
import { drawnTasks } from './draw-context-tasks.ts';

const LIMIT_MS = 1_800_000;

/** The trainings of the full file, and more, which are compared a few at a time. */
const AT_A_TIME = 6;

describe('context parallelism trains as one rank does', () => {
  it.each([
    [2, 30],
    [3, 18],
    [4, 30],
    [6, 12],
  ])(
    'on %i ranks, in %i trainings that were drawn',
    async (ranks, count) => {
      const tasks = drawnTasks(ranks, count);
      for (let first = 0; first < count; first += AT_A_TIME) {
        await compareWithOneRank(ranks, tasks.slice(first, first + AT_A_TIME));
      }
    },
    LIMIT_MS,
  );
});
