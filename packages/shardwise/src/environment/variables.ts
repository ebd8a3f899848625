import { ConfigError } from '@shardwise/core/extend';

/** The greatest number of ranks, and of nodes. */
export const MAX_WORLD_SIZE: number = 2 ** 20;
export const MAX_RESTARTS: number = 2 ** 20;
/** Longer values are cut in messages. */
const MAX_SHOWN = 60;

/** Returns a variable's value. An empty value counts as not set. */
export function textOf(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = env[name]?.trim();
  return text === '' ? undefined : text;
}

/** Returns a whole number from `min` to `max`. Throws ConfigError for another value. */
export function integerOf(
  env: NodeJS.ProcessEnv,
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  const text = textOf(env, name);
  if (text === undefined) return undefined;
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw valueError(name, text, `a whole number from ${min} to ${max}`);
}

/**
 * Does what integerOf does, for a variable that is needed because `because` is set. Throws ConfigError if it is not
 * set.
 */
export function neededIntegerOf(
  env: NodeJS.ProcessEnv,
  name: string,
  range: { readonly min: number; readonly max: number; readonly because: string },
): number {
  const value = integerOf(env, name, range);
  if (value === undefined) throw missingError(range.because, [name]);
  return value;
}

export function portOf(env: NodeJS.ProcessEnv, name: string): number | undefined {
  return integerOf(env, name, { min: 1, max: 65_535 });
}

/** Returns a host name or address. Throws ConfigError if the value can't be one. */
export function hostOf(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = textOf(env, name);
  if (text === undefined || isHost(text)) return text;
  throw valueError(name, text, 'a host name or an address');
}

export function isHost(text: string): boolean {
  return /^[\w.:%-]{1,255}$/.test(text);
}

/** Returns the name that a launcher gave a job. Throws ConfigError if it is too long or has unprintable characters. */
export function jobIdOf(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = textOf(env, name);
  if (text === undefined || /^[\x21-\x7e]{1,200}$/.test(text)) return text;
  throw valueError(name, text, 'a name of at most 200 printable characters');
}

export function valueError(name: string, text: string, expected: string): ConfigError {
  const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
  return new ConfigError(
    {
      asked: `The environment variable ${name}`,
      found: `${JSON.stringify(shown)} is not ${expected}`,
      todo: `Set ${name} as its launcher does, or unset it`,
    },
    { name, value: shown },
  );
}

/** Makes the error for variables that are missing although `isSet` are set, which mean nothing without them. */
export function missingError(isSet: string, missing: readonly string[]): ConfigError {
  const names = missing.join(' and ');
  return new ConfigError(
    {
      asked: `The environment variable ${isSet}`,
      found: `it is set, but ${names} ${missing.length === 1 ? 'is' : 'are'} not`,
      todo: `Set ${names} as well, or unset ${isSet}`,
    },
    { isSet, missing },
  );
}

/** Makes the error for two variables that contradict each other. */
export function conflictError(
  first: { readonly name: string; readonly value: number },
  second: { readonly name: string; readonly value: number },
  rule: string,
): ConfigError {
  return new ConfigError(
    {
      asked: `${first.name}=${first.value} and ${second.name}=${second.value} in the environment`,
      found: rule,
      todo: `Unset the one that is not of this job's launcher`,
    },
    { [first.name]: first.value, [second.name]: second.value },
  );
}
