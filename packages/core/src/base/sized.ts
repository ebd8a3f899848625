import type { Sizes, SizeSymbol } from '../spec/backend.ts';
import { samplePoints } from './sample-points.ts';
import { formulaOf, largest, numberAt, type SizeFormula } from './size-formula.ts';

/**
 * A value that depends on sizes. Each number in it either is constant or has a formula in the sizes. The
 * formulas are found by looking at the value at a few sizes, and checked at sizes that they were not made from
 * (testing of polynomial identities: Schwartz 1980, Zippel 1979).
 */
export class Sized<T> {
  readonly #part: Part<T>;
  readonly #symbols: readonly SizeSymbol[];
  #latest: { readonly sizes: Sizes; readonly value: T } | null = null;

  private constructor(part: Part<T>, symbols: readonly SizeSymbol[]) {
    this.#part = part;
    this.#symbols = symbols;
  }

  /**
   * The result of `evaluateAt` for all sizes. It must be plain data. Undefined if the results have several
   * structures, if a number has no formula in the sizes, or if `evaluateAt` throws because a program does not accept the
   * sizes. Throws the TypeErrors and ReferenceErrors of `evaluateAt`, because they are mistakes at any size.
   */
  static of<T>(
    symbols: readonly SizeSymbol[],
    evaluateAt: (sizes: Sizes) => T,
  ): Sized<T> | undefined {
    for (const points of samplePoints(symbols)) {
      try {
        const part = join(points.map(evaluateAt), points);
        return new Sized(part, symbols);
      } catch (error) {
        if (error instanceof TypeError || error instanceof ReferenceError) throw error;
        // The next points may work: a size that was tried may equal a number of the program by chance, and the
        // program may then treat it specially.
      }
    }
    return undefined;
  }

  /** Whether nothing depends on the sizes. */
  get isFixed(): boolean {
    return 'fixed' in this.#part;
  }

  /** The value at some sizes. Parts that are what they were at the sizes before are the same objects. */
  at(sizes: Sizes): T {
    const latest = this.#latest;
    if (latest?.sizes.every((size, index) => size === sizes[index])) return latest.value;
    const value = valueOf(this.#part, (formula) => numberAt(formula, sizes));
    this.#latest = { sizes, value };
    return value;
  }

  /** The value in which each number that depends on the sizes is what `evaluate` returns for its formula. */
  with(evaluate: (formula: SizeFormula) => number): T {
    return valueOf(this.#part, evaluate);
  }

  /** The value with NaN in place of each number that depends on the sizes. */
  pattern(): T {
    return valueOf(this.#part, () => Number.NaN);
  }

  /** The value in which each number is as large as it can be. */
  most(): T {
    return valueOf(this.#part, (formula) => largest(formula, this.#symbols));
  }
}

/** A value that is the same at all sizes, or a function that makes the value from the results of its formulas. */
type Part<T> =
  | { readonly fixed: T }
  | { readonly make: (evaluate: (formula: SizeFormula) => number) => T };

function valueOf<T>(part: Part<T>, evaluate: (formula: SizeFormula) => number): T {
  return 'fixed' in part ? part.fixed : part.make(evaluate);
}

/** Joins samples of one structure. Throws RangeError if they have several structures. */
function join<T>(samples: readonly T[], points: readonly Sizes[]): Part<T> {
  // The joined data has the structure of every sample, so it is of their type.
  return joinData(samples, points) as Part<T>;
}

function joinData(samples: readonly unknown[], points: readonly Sizes[]): Part<unknown> {
  const [first] = samples;
  if (samples.every((sample) => Object.is(sample, first))) return { fixed: first };
  if (samples.every((sample) => typeof sample === 'function')) return { fixed: first };
  if (samples.every((sample) => typeof sample === 'number')) return joinNumbers(samples, points);
  if (samples.every((sample) => Array.isArray(sample))) return joinLists(samples, points);
  if (samples.every((sample) => sample instanceof Map)) {
    const entries = samples.map((sample) => [...sample]);
    return made(joinLists(entries, points), first, (list) => new Map(entriesOf(list)));
  }
  if (samples.every((sample) => sample instanceof Set)) {
    const items = samples.map((sample) => [...sample]);
    if ('fixed' in joinLists(items, points)) return { fixed: first };
  }
  if (samples.every((sample) => sample instanceof Uint8Array)) {
    const bytes = samples.map((sample) => sample.join());
    if (bytes.every((each) => each === bytes[0])) return { fixed: first };
  }
  if (samples.every(isPlain)) return joinObjects(samples, points);
  throw new RangeError('what depends on sizes has several structures');
}

function joinNumbers(values: readonly number[], points: readonly Sizes[]): Part<number> {
  const formula = formulaOf(values, points);
  if (formula === undefined) throw new RangeError('a number has no formula in the sizes');
  return { make: (evaluate) => evaluate(formula) };
}

function joinLists(
  lists: readonly (readonly unknown[])[],
  points: readonly Sizes[],
): Part<readonly unknown[]> {
  const [first = []] = lists;
  if (lists.some(({ length }) => length !== first.length)) {
    throw new RangeError('what depends on sizes has several structures');
  }
  const parts = first.map((_, index) =>
    joinData(
      lists.map((list) => list[index]),
      points,
    ),
  );
  if (parts.every((part) => 'fixed' in part)) return { fixed: first };
  let latest: readonly unknown[] = [];
  return {
    make: (evaluate) => {
      const list = parts.map((part) => valueOf(part, evaluate));
      const isLatest = list.every((item, index) => Object.is(item, latest[index]));
      return (latest = isLatest ? latest : list);
    },
  };
}

function joinObjects(
  objects: readonly Readonly<Record<string, unknown>>[],
  points: readonly Sizes[],
): Part<Readonly<Record<string, unknown>>> {
  const [first = {}] = objects;
  const names = Object.keys(first);
  const fields = joinLists(
    objects.map((object) => {
      if (Object.keys(object).join() !== names.join()) {
        throw new RangeError('what depends on sizes has several structures');
      }
      return names.map((name) => object[name]);
    }),
    points,
  );
  return made(fields, first, (values) =>
    Object.fromEntries(names.map((name, index) => [name, values[index]])),
  );
}

/** Makes a value from its joined items. If these are the same at all sizes, it is `first`. */
function made<T>(
  items: Part<readonly unknown[]>,
  first: T,
  make: (items: readonly unknown[]) => T,
): Part<T> {
  if ('fixed' in items) return { fixed: first };
  let latest: { readonly list: readonly unknown[]; readonly value: T } | undefined;
  return {
    make: (evaluate) => {
      const list = items.make(evaluate);
      if (list !== latest?.list) latest = { list, value: make(list) };
      return latest.value;
    },
  };
}

function entriesOf(list: readonly unknown[]): (readonly [unknown, unknown])[] {
  return list.map((entry) => (Array.isArray(entry) ? [entry[0], entry[1]] : [entry, undefined]));
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}
