import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';

/** How often ranks fail, and what that costs. */
export interface FailureCosts {
  /** The mean time between failures of the whole run: that of one host, divided by the number of hosts. */
  readonly meanSecondsBetweenFailures: number;
  /** The time in which a checkpoint is saved and nothing else happens. */
  readonly checkpointSeconds: number;
  /** The time from a failure until the run continues from its checkpoint. */
  readonly restartSeconds: number;
}

const costsRules: OptionRules<FailureCosts> = {
  meanSecondsBetweenFailures: option.required(option.positive),
  checkpointSeconds: option.required(option.positive),
  restartSeconds: option.required(option.nonNegative),
};

/** Young 1974: the interval between checkpoints that wastes least, if failures are much rarer than checkpoints. */
export function youngInterval(costs: FailureCosts): number {
  checkOptions('youngInterval', costs, costsRules);
  return Math.sqrt(2 * costs.checkpointSeconds * costs.meanSecondsBetweenFailures);
}

/** Daly 2006, equation 37: the interval between checkpoints, also if failures are frequent. */
export function dalyInterval(costs: FailureCosts): number {
  checkOptions('dalyInterval', costs, costsRules);
  const { checkpointSeconds: delta, meanSecondsBetweenFailures: mean } = costs;
  if (delta >= 2 * mean) return mean;
  const ratio = delta / (2 * mean);
  return Math.sqrt(2 * delta * mean) * (1 + Math.sqrt(ratio) / 3 + ratio / 9) - delta;
}

/**
 * The share of the time in which steps are made that are not lost, with a checkpoint after each `intervalSeconds` of
 * steps and failures at random times (Daly 2006, equation 20).
 */
export function goodputOf(costs: FailureCosts, intervalSeconds: number): number {
  const { meanSecondsBetweenFailures: mean, checkpointSeconds, restartSeconds } = costs;
  const wall =
    mean *
    Math.exp(restartSeconds / mean) *
    Math.expm1((intervalSeconds + checkpointSeconds) / mean);
  return intervalSeconds / wall;
}

/** Options of `simulateFailures`. */
export interface FailureSimulation extends FailureCosts {
  readonly intervalSeconds: number;
  /** The length of the run without failures, checkpoints and restarts. */
  readonly usefulSeconds: number;
  readonly seed: number;
}

/** What became of a run with failures. */
export interface SimulatedFailures {
  readonly wallSeconds: number;
  readonly failures: number;
  readonly goodput: number;
}

/** Plays a run with failures at random times, which may also come during a checkpoint or a restart. */
export function simulateFailures(options: FailureSimulation): SimulatedFailures {
  checkOptions('simulateFailures', options, {
    ...costsRules,
    intervalSeconds: option.required(option.positive),
    usefulSeconds: option.required(option.positive),
    seed: option.required(option.count),
  } satisfies OptionRules<FailureSimulation>);
  const { meanSecondsBetweenFailures, checkpointSeconds, restartSeconds, intervalSeconds } =
    options;
  const random = randomNumbers(options.seed);
  const nextFailure = (): number => -meanSecondsBetweenFailures * Math.log(1 - random());
  let [wall, done, failures, untilFailure] = [0, 0, 0, nextFailure()];
  let isRestarting = false;
  while (done < options.usefulSeconds) {
    const work = Math.min(intervalSeconds, options.usefulSeconds - done);
    const needed = (isRestarting ? restartSeconds : 0) + work + checkpointSeconds;
    if (untilFailure >= needed) {
      wall += needed;
      untilFailure -= needed;
      done += work;
      isRestarting = false;
    } else {
      wall += untilFailure;
      untilFailure = nextFailure();
      failures++;
      isRestarting = true;
    }
  }
  return { wallSeconds: wall, failures, goodput: options.usefulSeconds / wall };
}

/** Numbers from 0 to 1 that are the same for the same seed (Steele et al. 2014, SplitMix, with 32 bits). */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
