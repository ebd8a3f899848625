/** What an option may be. */
export interface OptionRule {
  readonly fits: (value: unknown) => boolean;
  /** As in "a value that is not …". */
  readonly is: string;
  /** Whether it may not be left out; default false. */
  readonly isRequired?: boolean;
}

/** A rule for each option: one that is added without a rule does not compile. */
export type OptionRules<Options> = { readonly [K in keyof Required<Options>]: OptionRule };

export const flag: OptionRule = {
  fits: (value) => typeof value === 'boolean',
  is: 'true or false',
};

export const axisName: OptionRule = {
  fits: (value) => typeof value === 'string' && value !== '',
  is: 'the name of a mesh axis',
};

export const positive: OptionRule = {
  fits: (value) => typeof value === 'number' && value > 0,
  is: 'a number above 0',
};

export const count: OptionRule = {
  fits: (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= 0,
  is: 'a whole number from 0',
};

export const callback: OptionRule = {
  fits: (value) => typeof value === 'function',
  is: 'a function',
};

export const record: OptionRule = {
  fits: (value) => typeof value === 'object' && value !== null,
  is: 'an object',
};

export function oneOf(...values: readonly (string | number)[]): OptionRule {
  const known: ReadonlySet<unknown> = new Set(values);
  return { fits: (value) => known.has(value), is: `one of ${values.join(', ')}` };
}

export function required(rule: OptionRule): OptionRule {
  return { ...rule, isRequired: true };
}

/** What uses the option says more of its value. */
export const checkedLater: OptionRule = { fits: () => true, is: 'any value' };
