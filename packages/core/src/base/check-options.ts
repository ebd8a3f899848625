import { ConfigError, describeValue } from '../spec/errors.ts';
import { nearestName } from './nearest-name.ts';
import { integer, type OptionRule, type OptionRules, required } from './option-rules.ts';

/**
 * Throws ConfigError for an option that `of` does not have, for a value that an option cannot have, for a required
 * option that is missing, and for options that are not an object. For an unknown option, it names the nearest one.
 * Undefined counts as left out. It takes a tenth of a microsecond if there is no mistake.
 */
export function checkOptions<Options extends object>(
  of: string,
  options: Options | undefined,
  rules: OptionRules<Options>,
): void {
  checkByRules(of, options, rules);
}

/** Does the same as checkOptions by rules that were not made from a type. */
export function checkByRules(
  of: string,
  given: unknown = {},
  rules: Readonly<Record<string, OptionRule<unknown>>>,
): void {
  if (!isRecord(given, rules)) throw notOptions(of, given, rules);
  for (const option in given) {
    const value = given[option];
    if (value === undefined) continue;
    const rule = Object.hasOwn(rules, option) ? rules[option] : undefined;
    if (rule === undefined) throw unknownOption(of, option, Object.keys(rules));
    if (!rule.fits(value)) throw unfit(of, option, value, rule);
  }
  for (const option in rules) {
    const rule = rules[option];
    if (rule?.isRequired === true && given[option] === undefined) {
      throw missing(of, option, rule);
    }
  }
}

/**
 * Throws ConfigError for arguments that are no integers, are below `least` or are above `most`. `numbers` is by argument
 * name.
 */
export function requireIntegers(
  of: string,
  numbers: Readonly<Record<string, number>>,
  least?: number,
  most?: number,
): void {
  const rule = integer(least, most);
  for (const [name, value] of Object.entries(numbers)) {
    if (!rule.fits(value)) throw unfit(of, name, value, required(rule));
  }
}

function unknownOption(of: string, option: string, names: readonly string[]): ConfigError {
  const nearest = nearestName(option, names);
  const all = names.length === 0 ? 'There are no options' : `Use ${names.join(', ')}`;
  return new ConfigError(
    {
      asked: `${of} with the option ${option}`,
      found: 'no option of this name',
      todo: nearest === undefined ? all : `Write ${nearest}; the options are ${names.join(', ')}`,
    },
    { option, nearest },
  );
}

/** The error for a value that an option cannot have. */
export function unfit(
  of: string,
  option: string,
  value: unknown,
  rule: OptionRule<unknown>,
): ConfigError {
  const shown = describeValue(value);
  return new ConfigError(
    {
      asked: `${of} with ${option}: ${shown}`,
      found: `a value that is not ${rule.expected}`,
      todo:
        rule.isRequired === true
          ? `Give ${rule.expected}`
          : `Give ${rule.expected}, or leave the option out`,
    },
    // Functions and what holds them would keep the error from another thread as it is.
    { option, [option]: Object(value) === value ? shown : value },
  );
}

function missing(of: string, option: string, rule: OptionRule<unknown>): ConfigError {
  return new ConfigError(
    { asked: of, found: `no option ${option}`, todo: `Give ${option}: ${rule.expected}` },
    { option },
  );
}

function notOptions(of: string, given: unknown, rules: object): ConfigError {
  const names = Object.keys(rules);
  const [first = ''] = names;
  return new ConfigError(
    {
      asked: `${of} with ${describeValue(given)} in the place of its options`,
      found: 'no object of options by name',
      todo: `Write { ${first}: … }; the options are ${names.join(', ')}`,
    },
    { options: names },
  );
}

/** Is false for values such as a tensor or a Map, which have no entries whose names can be compared with options. */
function isRecord(value: unknown, rules: object): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  // The object comes from another realm, or its class has options as fields, unlike a dataset or a module.
  return value.constructor.name === 'Object' || Object.keys(value).some((name) => name in rules);
}

/**
 * A copy of `defaults` in which the given values replace the defaults. Undefined counts as left out, as it does in
 * checkOptions.
 */
export function withDefaults<T extends object>(defaults: T, given: Partial<NoInfer<T>>): T {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.assign({ ...defaults }, Object.fromEntries(set));
}
