import {
  checkSchedule,
  evaluationOf,
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
  simulateSchedule,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { expectToRunOrRefuse } from './expect-to-run-or-refuse.ts';
import { digest, golden, linesOf, scheduleOfKey } from './golden-schedules.ts';

/**
 * Whether PyTorch refuses this shape and we support it. With fewer microbatches than ranks, 1F1B only has a shorter
 * warm-up.
 */
function isTakenOnlyHere(key: string): boolean {
  return key.startsWith('1f1b ');
}

describe('the orders of schedules', () => {
  it.each(Object.entries(golden.tables))('are those of PyTorch, cell by cell: %s', (key, rows) => {
    expect(linesOf(scheduleOfKey(key))).toEqual(rows);
  });

  it('the orders of schedules are those of PyTorch for every shape that it takes', () => {
    const different = Object.entries(golden.orders).filter(
      ([key, order]) => order !== null && digest(linesOf(scheduleOfKey(key))) !== order,
    );
    expect(different).toEqual([]);
    expect(Object.keys(golden.orders).length).toBeGreaterThan(1000);
  });

  it('the orders of schedules are refused where PyTorch refuses them', () => {
    const refused = Object.entries(golden.orders).flatMap(([key, order]) =>
      order === null && !isTakenOnlyHere(key) ? [key] : [],
    );
    for (const key of refused) {
      expect(() => scheduleOfKey(key), key).toThrow(/^the schedule \w+ for \d+ rank/);
    }
    expect(refused.length).toBeGreaterThan(30);
  });
});

describe.each(scheduleNames)('the schedule %s', (name) => {
  it('can run, or says which number it cannot take', () => {
    for (const ranks of [1, 2, 3, 4, 5, 6, 7, 8]) {
      for (const stagesPerRank of [1, 2, 3, 4]) {
        for (const microbatches of [1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17]) {
          expectToRunOrRefuse(name, { ranks, stagesPerRank, microbatches });
        }
      }
    }
    expectToRunOrRefuse(name, { ranks: 8, stagesPerRank: 2, microbatches: 128 });
  });
});

describe('evaluation', () => {
  it.each(scheduleNames)('has its stages where %s has them, and keeps ranks busy', (name) => {
    const schedule = pipelineSchedule(name, { ranks: 3, microbatches: 6 });
    const evaluation = evaluationOf(schedule, 9);
    checkSchedule(evaluation);
    const { rankOfStage, forwardOnly, microbatches } = evaluation;
    expect({ rankOfStage, forwardOnly, microbatches }).toEqual({
      rankOfStage: schedule.rankOfStage,
      forwardOnly: true,
      microbatches: 9,
    });
    const { makespanMs } = simulateSchedule(evaluation);
    // A rank computes 9 microbatches for its stages. It also waits while one microbatch passes through the ranks, once
    // or twice.
    expect(makespanMs).toBeLessThanOrEqual((9 * schedule.stages) / 3 + 4);
  });
});

describe('the schedule of a name', () => {
  it('the schedule of a name needs a name that there is', () => {
    expect(() => pipelineSchedule('1F1B' as ScheduleName, { ranks: 2, microbatches: 4 })).toThrow(
      'the schedule 1F1B: no schedule of this name. The schedules are naive, gpipe, 1f1b,',
    );
  });

  it('the schedule of a name names numbers of microbatches that it can take', () => {
    const make = (microbatches: number) =>
      pipelineSchedule('interleaved1f1b', { ranks: 2, microbatches });
    expect(() => make(15)).toThrow('Take 14 or 16 microbatches');
    expect([14, 16].map((microbatches) => make(microbatches).microbatches)).toEqual([14, 16]);
  });

  it('the schedule of a name needs whole numbers, by their names', () => {
    expect(() => pipelineSchedule('1f1b', { ranks: 2, microbatches: 0 })).toThrow(
      'the schedule 1f1b with microbatches: 0: a value that is not a whole number from 1 to 65536',
    );
    expect(() => pipelineSchedule('1f1b', { ranks: 2, microBatches: 4 } as never)).toThrow(
      'Write microbatches',
    );
  });

  it('the schedule of a name is no longer than anything that trains', () => {
    expect(() => pipelineSchedule('gpipe', { ranks: 4096, microbatches: 60_000 })).toThrow(
      '245760000 pairs of stage and microbatch. Take 10000000 at most',
    );
  });
});
