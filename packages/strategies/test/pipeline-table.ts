import { pipelineSchedule, type ScheduleName } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { cuts, expectSameAsOneRank, type PipelineTask } from './pipeline-cases.ts';
import { onePerRank, twoPerRank } from './ranks/schedule-names.ts';
import { testMs } from './time-limits.ts';

/** Whether the schedule supports this number of microbatches, by the rules in the schedules' own table. */
function takes(schedule: ScheduleName, ranks: number, microbatches: number): boolean {
  if (schedule === 'dualPipeV') return microbatches >= 2 * ranks;
  if (schedule === 'interleaved1f1b' || schedule === 'zb1p' || schedule === 'zb2p') {
    return microbatches % Math.max(1, Math.floor(microbatches / ranks)) === 0;
  }
  return true;
}

const timeout = { timeout: testMs };

/**
 * Tests each schedule on 1 to 4 ranks with skips, ties and dropout. It trains like one rank, or it is refused with a
 * named error.
 */
export function testSchedules(microbatchesOf: (ranks: 1 | 2 | 3 | 4) => readonly number[]): void {
  describe.each([1, 2, 3, 4] as const)('a pipeline of %d ranks', (ranks) => {
    const cases = (schedules: readonly ScheduleName[], cut: readonly string[]): PipelineTask[] =>
      schedules.flatMap((schedule) =>
        microbatchesOf(ranks)
          .filter((microbatches) => takes(schedule, ranks, microbatches))
          .map((microbatches): PipelineTask => {
            return { schedule, cut, microbatches, rows: 9, tied: true, skips: true, dropout: 0.2 };
          }),
      );
    const stages = { 1: 2, 2: 4, 3: 6, 4: 8 } as const;

    it.each(cases(onePerRank, cuts[ranks]))(
      'with one stage each trains as one rank: $schedule of $microbatches microbatches',
      timeout,
      (task) => expectSameAsOneRank(ranks, task),
    );

    it.each(cases(twoPerRank, cuts[stages[ranks]]))(
      'with two stages each trains as one rank: $schedule of $microbatches microbatches',
      timeout,
      (task) => expectSameAsOneRank(ranks, task),
    );

    it('refuses numbers of microbatches that a schedule does not take', () => {
      for (const [stagesPerRank, schedules] of [onePerRank, twoPerRank].entries()) {
        for (const name of schedules) {
          for (const microbatches of microbatchesOf(ranks)) {
            const make = (): unknown =>
              pipelineSchedule(name, { ranks, stagesPerRank: stagesPerRank + 1, microbatches });
            const shape = `${name} of ${microbatches} microbatches`;
            if (takes(name, ranks, microbatches)) expect(make(), shape).toBeDefined();
            else expect(make, shape).toThrow(`the schedule ${name}`);
          }
        }
      }
    });
  });
}
