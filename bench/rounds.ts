import type { Bench } from './bench.ts';
import { UsageError } from './usage-error.ts';

/** The number of times that contestants take turns. */
export const roundsFlag = { rounds: { type: 'string' } } as const satisfies NonNullable<
  Bench['flags']
>;

export function roundsOf(values: Readonly<Record<string, unknown>>, usual: number): number {
  return countOf(values, 'rounds', usual);
}

/** Reads a flag that is an integer of at least 1. Returns `usual` if it is not given. Throws UsageError. */
export function countOf(
  values: Readonly<Record<string, unknown>>,
  flag: string,
  usual: number,
): number {
  const given = values[flag];
  if (given === undefined) return usual;
  const count = Number(given);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new UsageError(`--${flag} is ${JSON.stringify(given)}`, 'Give a whole number from 1');
}
