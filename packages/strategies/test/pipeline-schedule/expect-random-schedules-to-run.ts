import {
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
  type ScheduleShape,
  simulateSchedule,
} from '@shardwise/strategies';
import { expect } from 'vitest';

/** Expects schedules of random shapes and costs to run to their end, and not faster than their lower bound. */
export function expectRandomSchedulesToRun(turns: number, seed: number): void {
  const random = generator(seed);
  for (let turn = 0; turn < turns; turn++) {
    const name = scheduleNames[turn % scheduleNames.length] ?? 'naive';
    const schedule = pipelineSchedule(name, randomShape(name, random));
    const stages = Array.from({ length: schedule.stages }, () => ({
      forwardMs: random(),
      inputGradientMs: random(),
      weightGradientMs: random(),
    }));
    const { makespanMs, ranks } = simulateSchedule(schedule, {
      stages,
      link: { latencyMs: random() },
    });
    const longestWayMs = stages.reduce(
      (sum, stage) => sum + stage.forwardMs + (schedule.forwardOnly ? 0 : stage.inputGradientMs),
      0,
    );
    expect(makespanMs).toBeGreaterThanOrEqual(longestWayMs - 1e-9);
    expect(Math.min(...ranks.map(({ waitingMs }) => waitingMs))).toBeGreaterThanOrEqual(-1e-9);
  }
}

/** Returns a random shape that the schedule supports. */
function randomShape(name: ScheduleName, random: () => number): Required<ScheduleShape> {
  const upTo = (most: number): number => 1 + Math.floor(random() * most);
  const ranks = upTo(5);
  switch (name) {
    case 'gpipe':
    case '1f1b':
      return { ranks, stagesPerRank: 1, microbatches: upTo(12) };
    case 'zbv':
    case 'vHalf':
    case 'vMin':
      return { ranks, stagesPerRank: 2, microbatches: upTo(12) };
    case 'dualPipeV':
      return { ranks, stagesPerRank: 2, microbatches: 2 * ranks + upTo(4) };
    case 'interleaved1f1b':
    case 'zb1p':
    case 'zb2p':
      return { ranks, stagesPerRank: upTo(3), microbatches: ranks * upTo(3) };
    default:
      return { ranks, stagesPerRank: upTo(3), microbatches: upTo(12) };
  }
}

/** Returns a multiplicative congruential generator of numbers in [0, 1). They depend only on the seed. */
export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
