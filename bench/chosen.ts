import { UsageError } from './usage-error.ts';

/**
 * Returns the items of `all` that a flag lists, separated by commas. Without the flag, returns all. Throws UsageError.
 */
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
