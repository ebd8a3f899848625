import { scheduleNames } from '@shardwise/strategies';
import { describe, it } from 'vitest';
import { expectRandomSchedulesToRun } from './expect-random-schedules-to-run.ts';
import { expectToRunOrRefuse } from './expect-to-run-or-refuse.ts';

describe.each(scheduleNames)('the schedule %s', (name) => {
  it('can run for every number of microbatches up to 128, or says which number it cannot take', () => {
    for (let ranks = 2; ranks <= 8; ranks++) {
      for (let stagesPerRank = 1; stagesPerRank <= 4; stagesPerRank++) {
        for (let microbatches = 1; microbatches <= 128; microbatches++) {
          expectToRunOrRefuse(name, { ranks, stagesPerRank, microbatches });
        }
      }
    }
  });
});

describe('10,000 random shapes and costs', () => {
  it('never block', () => expectRandomSchedulesToRun(10_000, 3));
});
