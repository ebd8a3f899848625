import { unfit } from '../spec/check-options.ts';
import { describeValue } from '../spec/describe-value.ts';
import { ConfigError } from '../spec/errors.ts';
import { callback, flag, number, required, whole } from '../spec/option-rules.ts';
import type { OptionRule } from '../spec/option-rules.ts';
import { requireList, requireTensors } from './check-arguments.ts';

/** The kinds of arguments that are checked here. */
const rules: Readonly<Record<string, OptionRule<unknown>>> = {
  f: flag,
  h: callback(),
  i: whole,
  n: number,
};

/** Kinds of lists, by what they hold. */
const lists: Readonly<Record<string, string>> = { c: 'counts', d: 'dims', s: 'sizes' };

type Method = (...given: readonly unknown[]) => unknown;

/**
 * What methods take, a letter for each argument: c, d and s lists of counts, dims and sizes, f true or false, h a function, i a whole
 * number, n a number, t a tensor, in upper case if it must be given, and . for one that the method checks itself; * is any number of
 * arguments. A method that is missing here checks all that it takes, and its `length` counts them, as none has a default.
 */
export type Signatures<T> = Readonly<Partial<Record<Exclude<keyof T, 'toString'>, string>>>;

/**
 * Has the methods of a class, and of those that it extends, throw ConfigError, DTypeError or ShapeError for an argument of another kind,
 * and ConfigError for one more than they take, which JavaScript drops without a word. A call takes some 10 ns longer.
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
    // A function of this name, for stacks.
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

/** Throws ConfigError for arguments behind the `takes` that a function takes, of which others have more. */
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
