import { checkSchedule, type Schedule } from '@shardwise/strategies';
import { describe, it } from 'vitest';
import { cuts, expectSameAsOneRank } from './pipeline-cases.ts';
import { randomSchedule } from './pipeline-schedule/random-schedule.ts';

/** Returns a generator of numbers from 0 to 1 that are the same in each run (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draws random schedules for a chain of stages on some ranks. */
function schedulesOf(ranks: number, count: number): Schedule[] {
  const random = numbers(ranks);
  const found: Schedule[] = [];
  while (found.length < count) {
    const { schedule } = randomSchedule(random);
    if (schedule.ranks === ranks && schedule.stages in cuts && isValid(schedule))
      found.push(schedule);
  }
  return found;
}

/** Whether a drawn schedule is valid for the chain. It may have been drawn for stages that return no gradients. */
function isValid(schedule: Schedule): boolean {
  try {
    checkSchedule(schedule);
    return true;
  } catch {
    return false;
  }
}

describe.each([1, 2, 3, 4])('random schedules on %d ranks', (ranks) => {
  it.each(schedulesOf(ranks, 8).map((schedule, index) => ({ schedule, tied: index % 2 === 0 })))(
    'train as one rank',
    ({ schedule, tied }) => {
      const { stages, microbatches } = schedule;
      const cut = Object.entries(cuts).find(([count]) => Number(count) === stages)?.[1] ?? [];
      const task = { schedule, cut, microbatches, rows: 5, tied, dropout: 0.1 };
      return expectSameAsOneRank(ranks, task);
    },
  );
});
