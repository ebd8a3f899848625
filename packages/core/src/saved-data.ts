import { ConfigError } from './spec/errors.ts';

/**
 * A check of data from outside, such as a saved state or a request: it returns the value with its type, or throws
 * SavedDataError. `path` says where the value lies. Core has its own few checks, because loading a schema library would take half of the time that
 * `import '@shardwise/core'` may take.
 */
export type Check<T> = (value: unknown, path: string) => T;

/** Names the path of a value that does not pass a check, and says what was expected there. */
export class SavedDataError extends Error {
  readonly path: string;

  constructor(path: string, expected: string) {
    super(`expected ${expected}`);
    this.path = path;
  }
}

/** An integer within these limits, both included. */
export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Check<number> {
  return (value, path) => {
    const fits = typeof value === 'number' && Number.isSafeInteger(value) && value >= min;
    if (fits && value <= max) return value;
    const limit = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new SavedDataError(path, `an integer ${limit}`);
  };
}

/** Any number, also NaN and the infinities. */
export const number: Check<number> = (value, path) => {
  if (typeof value === 'number') return value;
  throw new SavedDataError(path, 'a number');
};

/** True or false. */
export const boolean: Check<boolean> = (value, path) => {
  if (typeof value === 'boolean') return value;
  throw new SavedDataError(path, 'true or false');
};

/** A text of at most `maxLength` characters, which matches the pattern if there is one. */
export function text(maxLength: number, pattern?: RegExp): Check<string> {
  return (value, path) => {
    const fits = typeof value === 'string' && value.length <= maxLength;
    if (fits && (pattern === undefined || pattern.test(value))) return value;
    const form = pattern === undefined ? '' : ` like ${String(pattern)}`;
    throw new SavedDataError(path, `a text of at most ${maxLength} characters${form}`);
  };
}

/** This value and no other. */
export function exactly<T extends string | number>(expected: T): Check<T> {
  return (value, path) => {
    if (value === expected) return expected;
    throw new SavedDataError(path, JSON.stringify(expected));
  };
}

/** Null, or what passes the check. */
export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value, path) => (value === null ? null : check(value, path));
}

/** A list whose elements pass the check. Both lengths are included. */
export function list<T>(check: Check<T>, minLength: number, maxLength: number): Check<T[]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length < minLength || value.length > maxLength) {
      const length = minLength === maxLength ? `${minLength}` : `${minLength} to ${maxLength}`;
      throw new SavedDataError(path, `a list of ${length}`);
    }
    return value.map((item, index) => check(item, `${path}[${index}]`));
  };
}

/** An object with any names. No name is special: `__proto__` is an entry like others. */
export function record<T>(
  check: Check<T>,
  maxNameLength: number,
): Check<Readonly<Record<string, T>>> {
  return (value, path) => {
    const entries = Object.entries(plainObject(value, path)).map(([name, item]) => {
      if (name.length > maxNameLength)
        throw new SavedDataError(path, `names of at most ${maxNameLength} characters`);
      return [name, check(item, join(path, name))] as const;
    });
    return Object.fromEntries(entries);
  };
}

/** An object that has all of these fields and no others. */
export function object<T extends object>(fields: {
  readonly [K in keyof T]: Check<T[K]>;
}): Check<T> {
  return (value, path) => {
    const source = plainObject(value, path);
    const unknown = Object.keys(source).find((name) => !Object.hasOwn(fields, name));
    if (unknown !== undefined) throw new SavedDataError(join(path, unknown), 'no such field');
    const checked: Partial<T> = {};
    for (const name in fields) {
      checked[name] = fields[name](
        Object.hasOwn(source, name) ? source[name] : undefined,
        join(path, name),
      );
    }
    // The checks have set every field of T.
    return checked as T;
  };
}

/** Returns the value if it passes the check. Otherwise throws a ConfigError that says what is wrong and where. */
export function checkSavedData<T>(check: Check<T>, value: unknown, asked: string, todo: string): T {
  try {
    return check(value, '');
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
