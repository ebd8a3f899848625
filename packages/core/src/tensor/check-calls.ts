import { unfit } from '../base/check-options.ts';
import { ConfigError, describeValue } from '../spec/errors.ts';
import {
  callback,
  flag,
  integer,
  number,
  type OptionRule,
  required,
} from '../base/option-rules.ts';
import { requireList, requireTensors } from './check-arguments.ts';

/** The rules for arguments that are single values, by their letter in a signature. */
const rules: Readonly<Record<string, OptionRule<unknown>>> = {
  f: flag,
  h: callback(),
  i: integer(),
  n: number,
};

/** What the lists hold, by their letter in a signature. */
const lists: Readonly<Record<string, string>> = { c: 'counts', d: 'dims', s: 'sizes' };

type Method = (...given: readonly unknown[]) => unknown;

/**
 * The arguments that each method takes, with one letter for each argument:
 *
 * - c, d and s are lists of counts, dims and sizes;
 * - f is true or false, h a function, i a whole number, n a number, t a tensor;
 * - a letter in upper case stands for an argument that is required;
 * - . stands for an argument that the method checks itself;
 * - * alone stands for any number of arguments, which are not checked.
 *
 * A method without a signature checks its arguments itself. Their number is then the method's `length`, so none of
 * them may have a default value.
 */
export type Signatures<T> = Readonly<Partial<Record<Exclude<keyof T, 'toString'>, string>>>;

/**
 * Makes the methods of a class and of its base classes check their arguments. They then throw ConfigError, DTypeError
 * or ShapeError for an argument of the wrong kind, and ConfigError for a surplus argument, which JavaScript would drop
 * silently. The checks cost about 10 ns per call.
 */
export function checkCalls<T extends object>(prototype: T, signatures: Signatures<T>): void {
  const known: Readonly<Record<string, string | undefined>> = { toString: '', ...signatures };
  for (let at: object = prototype; at !== Object.prototype; at = Reflect.getPrototypeOf(at) ?? at) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value !== 'function' || name === 'constructor') continue;
      const signature = known[name] ?? '.'.repeat(value.length);
      if (signature !== '*') Reflect.set(at, name, checked(name, value, signature));
    }
  }
}

function checked(name: string, method: Method, signature: string): Method | undefined {
  const methods: Readonly<Record<string, Method>> = {
    // The computed key gives the function the name of the method, which stack traces show.
    [name](this: unknown, ...given) {
      const last = Math.max(signature.length, given.length);
      for (let at = 0; at < last; at++) {
        const letter = signature.charAt(at);
        const isLeftOut = given[at] === undefined && (letter === '' || letter > 'Z');
        if (letter !== '.' && !isLeftOut) check(name, given[at], at + 1, letter.toLowerCase());
      }
      return Reflect.apply(method, this, given);
    },
  };
  return methods[name];
}

function check(name: string, value: unknown, place: number, kind: string): void {
  const argument = `argument ${place}`;
  const items = lists[kind];
  if (items !== undefined) return requireList(name, items, value);
  if (kind === 't') return requireTensors(name, { [argument]: value });
  const rule = rules[kind];
  if (rule?.fits(value) === true) return;
  if (rule !== undefined) throw unfit(name, argument, value, required(rule));
  throw surplus(name, place, value);
}

/**
 * Throws ConfigError if a function that takes `takes` arguments was given more of them. `more` has the surplus ones.
 */
export function requireNoMore(name: string, takes: number, more: readonly unknown[]): void {
  if (more.length > 0) throw surplus(name, takes + 1, more[0]);
}

function surplus(name: string, place: number, value: unknown): ConfigError {
  return new ConfigError({
    asked: `${name} with argument ${place}: ${describeValue(value)}`,
    found: 'no such argument',
    todo: 'Leave it out',
  });
}
