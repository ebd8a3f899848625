import { median } from '../summary.ts';
import type { Contestant, Job, OperationName } from './job.ts';

/** The times of one contestant, in seconds per call. */
export interface Times {
  readonly median: number;
  readonly best: number;
  /** The time of each round. */
  readonly rounds: readonly number[];
  /** The number of calls in a round. */
  readonly iterations: number;
}

/** The times of one operation with one size and number of ranks. */
export interface CaseTimes {
  readonly operation: OperationName;
  readonly bytes: number;
  readonly world: number;
  /** The times of each contestant, by name. */
  readonly times: ReadonlyMap<string, Times>;
}

/**
 * The least duration of a round. It is so long that code and caches that are cold after the turns of other contestants
 * do not matter.
 */
const ROUND_SECONDS = 0.05;
const MAX_ITERATIONS = 200_000;
const MIN_ITERATIONS = 2;
/** The duration of the warm-up before the rounds, so that code is compiled and connections have reached their speed. */
const WARM_UP_SECONDS = 0.5;
const MAX_TRIALS = 100;

/**
 * Measures all contestants round by round, so that disturbances of the machine affect all of them. First each
 * contestant warms up, which also finds how many calls make a round.
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

/**
 * Warms a contestant up, and returns the number of calls of a round. Returns undefined if it does not have the
 * operation.
 */
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
