import type { Sequence } from './sequence.ts';

/**
 * How many tokens each tenant got until now: of prompts, as far as they were not in the cache, and behind them. A tenant that
 * comes, or comes again, has at least as many as the one of those there that has the fewest.
 */
export type ServedTokens = ReadonlyMap<string, number>;

/**
 * Says which of two sequences comes first: a negative number for the first one. The scheduler admits sequences in this
 * order, and takes blocks from the last one if there are too few. 0 means that the one comes first that arrived first.
 */
export type SchedulingPolicy = (a: Sequence, b: Sequence, served: ServedTokens) => number;

/** First come, first served. */
export const firstCome: SchedulingPolicy = () => 0;

/** The shortest remaining prompt first, so that short requests do not wait for long ones. */
export const shortestFirst: SchedulingPolicy = (a, b) =>
  a.tokens.length - a.computed - (b.tokens.length - b.computed);

/** The highest priority first. */
export const byPriority: SchedulingPolicy = (a, b) => b.priority - a.priority;

/** The tenant first that got the fewest tokens. */
export const fairByTenant: SchedulingPolicy = (a, b, served) =>
  (served.get(a.tenant) ?? 0) - (served.get(b.tenant) ?? 0);
