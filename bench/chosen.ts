import { UsageError } from './usage-error.ts';

/** A flag that lists some of `all`, with commas; all where it was not given. Throws UsageError. */
export function chosenOf<T extends string>(
  values: Readonly<Record<string, unknown>>,
  flag: string,
  all: readonly T[],
): readonly T[] {
  const given = values[flag];
  if (typeof given !== 'string') return all;
  return given.split(',').map((name) => {
    const chosen = all.find((each) => each === name);
    if (chosen !== undefined) return chosen;
    throw new UsageError(`--${flag} has '${name}'`, `Give some of these: ${all.join(',')}`);
  });
}
