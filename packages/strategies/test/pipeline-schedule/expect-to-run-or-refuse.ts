import {
  checkSchedule,
  pipelineSchedule,
  type ScheduleName,
  type ScheduleShape,
} from '@shardwise/strategies';
import { expect } from 'vitest';

/**
 * The shapes that schedules do not support. Each function gets the ranks, the stages per rank and the microbatches. It
 * returns what the error says, or undefined for a supported shape.
 */
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
    : `${v} stage${v === 1 ? '' : 's'}, and a rank has one on the way down and one on the way up`;
}

/** Expects that ranks can run the schedule, or that the error names the unsupported numbers. */
export function expectToRunOrRefuse(name: ScheduleName, shape: Required<ScheduleShape>): void {
  const { ranks, stagesPerRank, microbatches } = shape;
  const limit = limits[name]?.(ranks, stagesPerRank, microbatches);
  const make = () => pipelineSchedule(name, shape);
  if (limit === undefined) expect(() => checkSchedule(make())).not.toThrow();
  else expect(make).toThrow(limit);
}
