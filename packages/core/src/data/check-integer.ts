import { ConfigError } from '../spec/errors.ts';

/** Throws ConfigError unless `value` is a safe integer of at least `min`. */
export function checkInteger(asked: string, name: string, value: number, min: number): void {
  if (Number.isSafeInteger(value) && value >= min) return;
  throw new ConfigError(
    { asked, found: `${name} ${value}`, todo: `Use an integer of at least ${min}` },
    { [name]: value },
  );
}
