import { median } from '../summary.ts';
import type { Contestant, Job, OperationName } from './job.ts';

/** Times of one contestant, in seconds per call. */
export interface Times {
  readonly median: number;
  readonly best: number;
  /** Of each round. */
  readonly rounds: readonly number[];
  /** Calls in a round. */
  readonly iterations: number;
}

/** One operation with one size and number of ranks. */
export interface CaseTimes {
  readonly operation: OperationName;
  readonly bytes: number;
  readonly world: number;
  /** By name of the contestant. */
  readonly times: ReadonlyMap<string, Times>;
}

/** So long that code and caches, cold from the other contestants' turns, make no difference. */
const ROUND_SECONDS = 0.05;
const MAX_ITERATIONS = 200_000;
const MIN_ITERATIONS = 2;
/** Before the rounds, so that code is compiled and connections are in their stride. */
const WARM_UP_SECONDS = 0.5;
const MAX_TRIALS = 100;

/**
 * All contestants, round by round, so that what else the machine does hits all of them. First each
 * one warms up, and finds how many calls make a round.
 */
export async function measure(
  contestants: readonly Contestant[],
  job: Omit<Job, 'iterations'>,
  rounds: number,
): Promise<ReadonlyMap<string, Times>> {
  const entries: { contestant: Contestant; iterations: number; seconds: number[] }[] = [];
  for (const contestant of contestants) {
    const iterations = await calibrate(contestant, job);
    if (iterations !== undefined) entries.push({ contestant, iterations, seconds: [] });
  }
  for (let round = 0; round < rounds; round++) {
    for (const { contestant, iterations, seconds } of entries) {
      if (round % (contestant.roundsApart ?? 1) !== 0) continue;
      const time = await contestant.run({ ...job, iterations });
      if (time !== undefined) seconds.push(time);
    }
  }
  return new Map(
    entries.map(({ contestant, iterations, seconds }) => [
      contestant.name,
      { median: median(seconds), best: Math.min(...seconds), rounds: seconds, iterations },
    ]),
  );
}

/** Undefined where the contestant does not have the operation. */
async function calibrate(
  contestant: Contestant,
  job: Omit<Job, 'iterations'>,
): Promise<number | undefined> {
  let iterations = MIN_ITERATIONS;
  let best = Number.POSITIVE_INFINITY;
  let spent = 0;
  for (let trial = 0; trial < MAX_TRIALS && spent < WARM_UP_SECONDS; trial++) {
    const seconds = await contestant.run({ ...job, iterations });
    if (seconds === undefined) return undefined;
    best = Math.min(best, seconds);
    spent += seconds * iterations;
    const wanted = Math.round(ROUND_SECONDS / Math.max(best, 1e-9));
    iterations = Math.min(Math.max(wanted, MIN_ITERATIONS), MAX_ITERATIONS);
    if (contestant.roundsApart !== undefined) break;
  }
  return iterations;
}
