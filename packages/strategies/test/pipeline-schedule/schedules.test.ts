import {
  checkSchedule,
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { digest, golden, linesOf, scheduleOfKey } from './golden-schedules.ts';

/** Shapes that PyTorch refuses and we do not: 1F1B with fewer microbatches than ranks is a shorter warm-up. */
function isTakenOnlyHere(key: string): boolean {
  return key.startsWith('1f1b ');
}

describe('the orders of schedules', () => {
  it.each(Object.entries(golden.tables))('are those of PyTorch, cell by cell: %s', (key, rows) => {
    expect(linesOf(scheduleOfKey(key))).toEqual(rows);
  });

  it('are those of PyTorch for every shape that it takes', () => {
    const different = Object.entries(golden.orders).filter(
      ([key, order]) => order !== null && digest(linesOf(scheduleOfKey(key))) !== order,
    );
    expect(different).toEqual([]);
    expect(Object.keys(golden.orders).length).toBeGreaterThan(1000);
  });

  it('are refused where PyTorch refuses them', () => {
    const refused = Object.entries(golden.orders).flatMap(([key, order]) =>
      order === null && !isTakenOnlyHere(key) ? [key] : [],
    );
    for (const key of refused) {
      expect(() => scheduleOfKey(key), key).toThrow(/^the schedule \w+ for \d+ rank/);
    }
    expect(refused.length).toBeGreaterThan(30);
  });
});

/** What a schedule cannot take, by name: the error, with its numbers, and for which of the tried shapes it comes. */
const limits: Readonly<
  Partial<Record<ScheduleName, (p: number, v: number, m: number) => string | undefined>>
> = {
  gpipe: (_, v) => (v === 1 ? undefined : `${v} stages of one rank. Take loopedBfs`),
  '1f1b': (_, v) => (v === 1 ? undefined : `${v} stages of one rank. Take interleaved1f1b`),
  interleaved1f1b: unequalRounds,
  zb1p: unequalRounds,
  zb2p: unequalRounds,
  zbv: needsTwo,
  vHalf: needsTwo,
  vMin: needsTwo,
  dualPipeV: (p, v, m) =>
    needsTwo(p, v) ?? (m >= 2 * p ? undefined : `fewer microbatches than the ${2 * p} stages`),
};

function unequalRounds(p: number, _: number, m: number): string | undefined {
  const rounds = Math.max(1, Math.floor(m / p));
  return m % rounds === 0 ? undefined : `${rounds} rounds, into which ${m} microbatches`;
}

function needsTwo(_: number, v: number): string | undefined {
  return v === 2
    ? undefined
    : `${v} stage${v === 1 ? '' : 's'} where a rank has one on the way down and one on the way up`;
}

const tried = [1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17, 127, 128];

describe.each(scheduleNames)('the schedule %s', (name) => {
  it('can run, or says which number it cannot take', () => {
    for (let ranks = 1; ranks <= 8; ranks++) {
      for (const stagesPerRank of [1, 2, 3, 4]) {
        for (const microbatches of tried) {
          // Large shapes of many stages say no more than those of fewer.
          if (microbatches > 17 && (stagesPerRank > 2 || ranks % 4 !== 0)) continue;
          const limit = limits[name]?.(ranks, stagesPerRank, microbatches);
          const make = () => pipelineSchedule(name, { ranks, stagesPerRank, microbatches });
          if (limit === undefined) expect(() => checkSchedule(make())).not.toThrow();
          else expect(make).toThrow(limit);
        }
      }
    }
  });
});

describe('the schedule of a name', () => {
  it('needs a name that there is', () => {
    expect(() => pipelineSchedule('1F1B' as ScheduleName, { ranks: 2, microbatches: 4 })).toThrow(
      'the schedule 1F1B: no schedule of this name. The schedules are naive, gpipe, 1f1b,',
    );
  });

  it('needs whole numbers, by their names', () => {
    expect(() => pipelineSchedule('1f1b', { ranks: 2, microbatches: 0 })).toThrow(
      'the schedule 1f1b with microbatches: 0: a value that is not a whole number from 1 to 65536',
    );
    expect(() => pipelineSchedule('1f1b', { ranks: 2, microBatches: 4 } as never)).toThrow(
      'Write microbatches',
    );
  });

  it('is no longer than anything that trains', () => {
    expect(() => pipelineSchedule('gpipe', { ranks: 4096, microbatches: 60_000 })).toThrow(
      '245760000 pairs of stage and microbatch. Take 10000000 at most',
    );
  });
});
