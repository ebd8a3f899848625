import type { OptionRule } from './base/option-rules.ts';
import { ConfigError } from './spec/errors.ts';

/**
 * A check of data from outside, such as a saved state or a request: it returns the value with its type, or throws
 * SavedDataError. `path` says where the value lies. Single values follow the rules of options. Core and the packages of
 * pages have these few checks, because loading a schema library would take half of the time that `import
 * '@shardwise/core'` may take. Packages that depend on zod check data from outside with zod.
 */
export type Check<T> = (value: unknown, path: string) => T;

/** What a value must be: a rule of a single value, or a check of a value with parts. */
export type Expected<T> = Check<T> | OptionRule<T>;

/** Names the path of a value that does not pass a check, and says what was expected there. */
export class SavedDataError extends Error {
  readonly path: string;

  constructor(path: string, expected: string) {
    super(`expected ${expected}`);
    this.path = path;
  }
}

/** Returns the value if it is as expected. Otherwise throws SavedDataError, which names `path`. */
export function checkValue<T>(expected: Expected<T>, value: unknown, path: string): T {
  if (typeof expected === 'function') return expected(value, path);
  if (expected.fits(value)) return value;
  throw new SavedDataError(path, expected.expected);
}

/** A text of at most `maxLength` characters, which matches the pattern if there is one. */
export function limitedText(maxLength: number, pattern?: RegExp): OptionRule<string> {
  const form = pattern === undefined ? '' : ` like ${String(pattern)}`;
  return {
    fits: (value): value is string =>
      typeof value === 'string' && value.length <= maxLength && (pattern?.test(value) ?? true),
    expected: `a text of at most ${maxLength} characters${form}`,
  };
}

/** This value and no other. */
export function exactly<const T extends string | number>(only: T): OptionRule<T> {
  return { fits: (value): value is T => value === only, expected: JSON.stringify(only) };
}

/** Null, or what passes the check. */
export function nullable<T>(expected: Expected<T>): Check<T | null> {
  return (value, path) => (value === null ? null : checkValue(expected, value, path));
}

/** A list whose elements pass the check. Both lengths are included. */
export function list<T>(element: Expected<T>, minLength: number, maxLength: number): Check<T[]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length < minLength || value.length > maxLength) {
      const length = minLength === maxLength ? `${minLength}` : `${minLength} to ${maxLength}`;
      throw new SavedDataError(path, `a list of ${length}`);
    }
    return value.map((item, index) => checkValue(element, item, `${path}[${index}]`));
  };
}

/** An object with any names. No name is special: `__proto__` is an entry like others. */
export function record<T>(
  entry: Expected<T>,
  maxNameLength: number,
): Check<Readonly<Record<string, T>>> {
  return (value, path) => {
    const entries = Object.entries(plainObject(value, path)).map(([name, item]) => {
      if (name.length > maxNameLength)
        throw new SavedDataError(path, `names of at most ${maxNameLength} characters`);
      return [name, checkValue(entry, item, join(path, name))] as const;
    });
    return Object.fromEntries(entries);
  };
}

/** An object that has all of these fields and no others. */
export function object<T extends object>(fields: {
  readonly [K in keyof T]: Expected<T[K]>;
}): Check<T> {
  return (value, path) => {
    const source = plainObject(value, path);
    const unknown = Object.keys(source).find((name) => !Object.hasOwn(fields, name));
    if (unknown !== undefined) throw new SavedDataError(join(path, unknown), 'no such field');
    const checked: Partial<T> = {};
    for (const name in fields) {
      checked[name] = checkValue(
        fields[name],
        Object.hasOwn(source, name) ? source[name] : undefined,
        join(path, name),
      );
    }
    // The checks have set every field of T.
    return checked as T;
  };
}

/** Returns the value if it passes the check. Otherwise throws a ConfigError that says what is wrong and where. */
export function checkSavedData<T>(
  expected: Expected<T>,
  value: unknown,
  asked: string,
  todo: string,
): T {
  try {
    return checkValue(expected, value, '');
  } catch (cause) {
    if (!(cause instanceof SavedDataError)) throw cause;
    const { path, message } = cause;
    const found = `${path === '' ? 'the value' : path}: ${message}`;
    throw new ConfigError({ asked, found, todo }, { path }, { cause });
  }
}

function plainObject(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  throw new SavedDataError(path, 'an object');
}

function join(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
