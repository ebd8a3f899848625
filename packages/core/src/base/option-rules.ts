/**
 * The values that an option may have. Arguments, and single values of data from outside (`saved-data.ts`), follow the
 * same rules.
 */
export interface OptionRule<T> {
  readonly fits: (value: unknown) => value is T;
  /** The words after "a value that is not". */
  readonly expected: string;
  /** Whether the option is required. Default: false. */
  readonly isRequired?: boolean;
}

/** The rule of a required option. */
export interface RequiredRule<T> extends OptionRule<T> {
  readonly isRequired: true;
}

/**
 * A rule for each option. A table does not compile if it has no rule for an option, if a rule accepts another
 * type, or if a required option may be left out.
 */
export type OptionRules<Options> = {
  readonly [K in keyof Options]-?: Pick<Options, K> extends Required<Pick<Options, K>>
    ? RequiredRule<Options[K]>
    : OptionRule<Exclude<Options[K], undefined>>;
};

/** True or false. */
export const flag: OptionRule<boolean> = {
  fits: (value) => typeof value === 'boolean',
  expected: 'true or false',
};

/** Any number but NaN. */
export const number: OptionRule<number> = {
  fits: (value): value is number => typeof value === 'number' && !Number.isNaN(value),
  expected: 'a number',
};

/** A number above 0. */
export const positive: OptionRule<number> = {
  fits: (value): value is number => typeof value === 'number' && value > 0,
  expected: 'a number above 0',
};

/** A number of 0 or more. */
export const nonNegative: OptionRule<number> = {
  fits: (value): value is number => typeof value === 'number' && value >= 0,
  expected: 'a number from 0',
};

/** A number from 0 to 1, both included. */
export const fraction: OptionRule<number> = {
  fits: (value): value is number => typeof value === 'number' && value >= 0 && value <= 1,
  expected: 'a number from 0 to 1',
};

/** A whole number from `least` to `most`, both included. Default: any. */
export function integer(
  least: number = Number.MIN_SAFE_INTEGER,
  most: number = Number.MAX_SAFE_INTEGER,
): OptionRule<number> {
  const from = least === Number.MIN_SAFE_INTEGER ? '' : ` from ${least}`;
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`;
  return {
    fits: (value): value is number =>
      typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most,
    expected: `a whole number${from}${upTo}`,
  };
}

/** A whole number of 0 or more. */
export const count: OptionRule<number> = integer(0);

/** Any text, including the empty one. */
export const text: OptionRule<string> = {
  fits: (value) => typeof value === 'string',
  expected: 'a text',
};

/** A text of at least one character. */
export const nonEmptyText: OptionRule<string> = {
  fits: (value): value is string => typeof value === 'string' && value !== '',
  expected: 'a text of one character or more',
};

/** The name of a mesh axis. */
export const axisName: OptionRule<string> = {
  fits: nonEmptyText.fits,
  expected: 'the name of a mesh axis',
};

/** One of these values. */
export function oneOf<const T extends string | number>(...values: readonly T[]): OptionRule<T> {
  const known: ReadonlySet<unknown> = new Set(values);
  return { fits: (value): value is T => known.has(value), expected: `one of ${values.join(', ')}` };
}

/** A function. Its parameters and result are not checked. */
export function callback<T extends (...inputs: never[]) => unknown>(): OptionRule<T> {
  return { fits: (value): value is T => typeof value === 'function', expected: 'a function' };
}

/**
 * An object. A promise is refused, because a caller who gives one has left out `await`. The function that uses the
 * object must check its fields.
 */
export function object<T extends object>(expected = 'an object'): OptionRule<T> {
  const fits = (value: unknown): value is T =>
    typeof value === 'object' && value !== null && !(value instanceof Promise);
  return { fits, expected };
}

/** An object of this class. */
export function instanceOf<T>(type: abstract new (...inputs: never[]) => T): OptionRule<T> {
  return { fits: (value): value is T => value instanceof type, expected: `a ${type.name}` };
}

/** A list in which every value follows the rule. */
export function listOf<T>(rule: OptionRule<T>): OptionRule<readonly T[]> {
  return {
    fits: (value): value is readonly T[] => Array.isArray(value) && value.every(rule.fits),
    expected: `a list of which each is ${rule.expected}`,
  };
}

/** One rule or the other. */
export function either<A, B>(a: OptionRule<A>, b: OptionRule<B>): OptionRule<A | B> {
  return {
    fits: (value): value is A | B => a.fits(value) || b.fits(value),
    expected: `${a.expected} or ${b.expected}`,
  };
}

/** The same rule for a required option. */
export function required<T>(rule: OptionRule<T>): RequiredRule<T> {
  return { ...rule, isRequired: true };
}

/** Any value. The code that uses the option checks it. */
export function checkedLater<T>(): OptionRule<T> {
  return { fits: (value): value is T => value !== undefined, expected: 'any value' };
}
