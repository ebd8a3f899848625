import { ConfigError } from '../spec/errors.ts';

/** A scheduler's number of each parameter group, of one for all or a list. Throws ConfigError for a list of another length. */
export function eachGroup(
  scheduler: string,
  name: string,
  value: number | readonly number[],
  groups: number,
): readonly number[] {
  if (typeof value === 'number') return Array.from({ length: groups }, () => value);
  if (value.length === groups) return value;
  throw new ConfigError(
    {
      asked: `a ${scheduler} with ${value.length} numbers as ${name}`,
      found: `${groups} parameter groups`,
      todo: `Give one number, or one for each group`,
    },
    { [name]: value, groups },
  );
}
