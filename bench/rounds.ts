import type { Bench } from './bench.ts';

/** How often contestants take turns. */
export const roundsFlag = { rounds: { type: 'string' } } as const satisfies NonNullable<
  Bench['flags']
>;

export function roundsOf(values: Readonly<Record<string, unknown>>, usual: number): number {
  return countOf(values, 'rounds', usual);
}

/** A flag that is an integer of at least 1; `usual` where it was not given. Throws RangeError. */
export function countOf(
  values: Readonly<Record<string, unknown>>,
  flag: string,
  usual: number,
): number {
  const given = values[flag];
  if (given === undefined) return usual;
  const count = Number(given);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new RangeError(
    `Asked for --${flag} ${JSON.stringify(given)}. Give an integer of at least 1`,
  );
}
