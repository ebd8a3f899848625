import { ConfigError } from '../spec/errors.ts';

/**
 * Returns a scheduler's number for each parameter group, given one number for all groups or a list. Throws ConfigError
 * for a list that does not have a number for each group.
 */
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
