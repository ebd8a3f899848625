import type { Bench } from './bench.ts';

/** How often contestants take turns. */
export const roundsFlag = { rounds: { type: 'string' } } as const satisfies NonNullable<
  Bench['flags']
>;

export function roundsOf({ rounds }: Readonly<Record<string, unknown>>, usual: number): number {
  if (rounds === undefined) return usual;
  const count = Number(rounds);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new RangeError(
    `Asked for --rounds ${JSON.stringify(rounds)}. Give an integer of at least 1`,
  );
}
