/**
 * Returns the fault of a value at a path, such as "push.sequence is no whole number from 0". Undefined if the value is
 * valid.
 */
export type Check = (value: unknown, path: string) => string | undefined;

/** Longer lists are refused: no model has as many parameters, and no job as many workers. */
const MAX_ELEMENTS = 1 << 20;
const MAX_TEXT_LENGTH = 4096;

export const count: Check = checkOf(
  (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  'is no whole number from 0',
);
export const text: Check = checkOf(
  (value) => typeof value === 'string' && value.length <= MAX_TEXT_LENGTH,
  `is no text of at most ${MAX_TEXT_LENGTH} characters`,
);
export const flag: Check = checkOf(
  (value) => typeof value === 'boolean',
  'is neither true nor false',
);
export const number: Check = checkOf((value) => typeof value === 'number', 'is no number');
export const plain: Check = checkOf(isPlain, 'is no object');

export function literal(...words: readonly string[]): Check {
  return checkOf(
    (value) => words.some((word) => word === value),
    `is not one of ${words.join(', ')}`,
  );
}

export function matching(pattern: RegExp): Check {
  return checkOf(
    (value) => typeof value === 'string' && pattern.test(value),
    `does not match ${pattern}`,
  );
}

/** A whole number from 1 up to, but not including, the limit. */
export function below(limit: number): Check {
  return checkOf(
    (value) => Number.isSafeInteger(value) && Number(value) > 0 && Number(value) < limit,
    `is no whole number from 1 to ${limit - 1}`,
  );
}

export function orNull(check: Check): Check {
  return (value, path) => (value === null ? undefined : check(value, path));
}

export function list(check: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value)) return `${path} is no list`;
    if (value.length > MAX_ELEMENTS) return `${path} has more than ${MAX_ELEMENTS} elements`;
    return firstOf(value, (element, index) => check(element, `${path}[${index}]`));
  };
}

export function pair(first: Check, second: Check): Check {
  return (value, path) => {
    if (!Array.isArray(value) || value.length !== 2) return `${path} is no pair`;
    return first(value[0], `${path}[0]`) ?? second(value[1], `${path}[1]`);
  };
}

/** Accepts an object that has exactly these fields. */
export function fields(table: Readonly<Record<string, Check>>): Check {
  return (value, path) => {
    if (!isPlain(value)) return `${path} is no object`;
    const given = new Map<string, unknown>(Object.entries(value));
    const missing = Object.keys(table).find((name) => !given.has(name));
    if (missing !== undefined) return `${path}.${missing} is missing`;
    return firstOf([...given], ([name, field]) => {
      const check = Object.hasOwn(table, name) ? table[name] : undefined;
      return check === undefined
        ? `${path}.${name.slice(0, 100)} is unknown`
        : check(field, `${path}.${name}`);
    });
  };
}

/** Accepts an object whose `kind` decides which other fields it has. */
export function byKind(kinds: Readonly<Record<string, Readonly<Record<string, Check>>>>): Check {
  const checks = new Map(
    Object.entries(kinds).map(([kind, table]) => [kind, fields({ kind: text, ...table })]),
  );
  const known = [...checks.keys()].join(', ');
  return (value, path) => {
    if (!isPlain(value)) return `${path} is no object`;
    const kind = 'kind' in value && typeof value.kind === 'string' ? value.kind : '';
    const check = checks.get(kind);
    return check === undefined ? `${path}.kind is not one of ${known}` : check(value, kind);
  };
}

function checkOf(fits: (value: unknown) => boolean, wrong: string): Check {
  return (value, path) => (fits(value) ? undefined : `${path} ${wrong}`);
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function firstOf<T>(
  values: readonly T[],
  wrong: (value: T, index: number) => string | undefined,
): string | undefined {
  for (const [index, value] of values.entries()) {
    const found = wrong(value, index);
    if (found !== undefined) return found;
  }
  return undefined;
}
