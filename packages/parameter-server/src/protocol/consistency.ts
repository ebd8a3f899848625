import { ConfigError, describeValue } from '@shardwise/core/extend';

/**
 * Reads wait until no worker is more than `staleness` steps behind the reader (stale synchronous parallel).
 * With 0, all workers make each step together.
 */
export interface BoundedStaleness {
  readonly staleness: number;
}

/** Synchronous, but a step does not wait for this number of workers. Their gradients for the step are dropped. */
export interface BackupWorkers {
  readonly backupWorkers: number;
}

/**
 * Elastic averaging (EASGD, Zhang, Choromanska, LeCun 2015). Each worker trains with its own optimizer. Every
 * `everySteps` steps, its values and those of the servers move towards each other by `movingRate` of their
 * difference.
 */
export interface ElasticAveraging {
  readonly elastic: { readonly everySteps: number; readonly movingRate: number };
}

/**
 * When an update enters the parameters, and which workers wait for others. `synchronous`: the parameters are updated by
 * the mean of the gradients of all workers, as in DDP. `asynchronous`: each gradient is applied as soon as it arrives.
 */
export type Consistency =
  | 'synchronous'
  | 'asynchronous'
  | BoundedStaleness
  | BackupWorkers
  | ElasticAveraging;

/** A consistency in a normalized form. */
export type ConsistencyRule =
  | { readonly kind: 'synchronous'; readonly backupWorkers: number }
  /** `staleness` is null if no worker waits for others. */
  | { readonly kind: 'bounded'; readonly staleness: number | null }
  | { readonly kind: 'elastic'; readonly everySteps: number; readonly movingRate: number };

const isCount = (value: unknown, least: number): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= least;

/** Throws ConfigError for invalid consistencies, and for numbers out of range. */
export function consistencyRule(consistency: unknown): ConsistencyRule {
  if (consistency === 'synchronous') return { kind: 'synchronous', backupWorkers: 0 };
  if (consistency === 'asynchronous') {
    return { kind: 'bounded', staleness: null };
  }
  if (typeof consistency === 'object' && consistency !== null) {
    const keys = Object.keys(consistency);
    if (keys.length === 1 && 'staleness' in consistency) {
      const { staleness } = consistency;
      if (staleness === Number.POSITIVE_INFINITY || isCount(staleness, 0)) {
        return {
          kind: 'bounded',
          staleness: staleness === Number.POSITIVE_INFINITY ? null : staleness,
        };
      }
      throw wrong(`a staleness of ${describeValue(staleness)}`, 'a whole number of steps from 0');
    }
    if (keys.length === 1 && 'backupWorkers' in consistency) {
      const { backupWorkers } = consistency;
      if (isCount(backupWorkers, 0)) return { kind: 'synchronous', backupWorkers };
      throw wrong(`backupWorkers ${describeValue(backupWorkers)}`, 'a whole number from 0');
    }
    if (keys.length === 1 && 'elastic' in consistency) return elasticRule(consistency.elastic);
  }
  throw wrong(
    `the consistency ${describeValue(consistency)}`,
    "'synchronous', 'asynchronous', { staleness }, { backupWorkers } or { elastic: { everySteps, movingRate } }",
  );
}

function elasticRule(elastic: unknown): ConsistencyRule {
  const given = typeof elastic === 'object' && elastic !== null ? elastic : {};
  const everySteps = 'everySteps' in given ? given.everySteps : undefined;
  const movingRate = 'movingRate' in given ? given.movingRate : undefined;
  if (!isCount(everySteps, 1)) {
    throw wrong(
      `elastic averaging every ${describeValue(everySteps)} steps`,
      'a whole number from 1',
    );
  }
  if (!(typeof movingRate === 'number' && movingRate > 0 && movingRate <= 1)) {
    throw wrong(
      `elastic averaging with movingRate ${describeValue(movingRate)}`,
      'a number above 0 and at most 1, because training does not settle beyond 1',
    );
  }
  return { kind: 'elastic', everySteps, movingRate };
}

function wrong(asked: string, allowed: string): ConfigError {
  return new ConfigError({
    asked: `parameterServer() with ${asked}`,
    found: 'no such consistency',
    todo: `Give ${allowed}`,
  });
}

/**
 * Moves values towards others by a share of their difference, which is one side of an exchange of elastic averaging.
 * Shapes: values and others [n] -> [n].
 */
export function movedTowards(
  values: Float32Array,
  others: Float32Array,
  movingRate: number,
): Float32Array {
  return values.map((value, index) => value + movingRate * ((others[index] ?? value) - value));
}
