import type { SizeLimit } from '../../graph/node.ts';
import type { Sizes } from '../../spec/backend.ts';
import type { Narrowing } from './narrowing.ts';
import type { Observation, Relation } from './related-sizes.ts';
import { SizeRelations } from './size-relations.ts';

export interface RelateOptions extends Narrowing {
  /** The declared limits of sizes, by the place of the size. */
  readonly limits: ReadonlyMap<number, SizeLimit>;
  /** The number of sizes of leaves, which come first. */
  readonly leafSizes: number;
  /**
   * Whether there is room only for sizes up to the largest seen. Otherwise there is room up to the next power of two.
   * Declared limits apply in both cases.
   */
  readonly isTight: boolean;
}

/** The largest number of symbols. With more, too many points would have to be looked at. */
const MAX_SYMBOLS = 6;

/**
 * Finds how the sizes of several runs are related: they may be equal, multiples, sums, differences or products. A relation may hold
 * by chance. Then `numbersOf` is null for the run that breaks it, and this run is added to the observations. Undefined
 * if there are too many symbols.
 */
export function relateSizes(
  observations: readonly Observation[],
  { limits, leafSizes, isTight, keepsDivisors, modulus }: RelateOptions,
): SizeRelations | undefined {
  const [first] = observations;
  if (first === undefined) return undefined;
  const known: Column[] = [];
  const relations: Relation[] = [];
  const symbols: Column[] = [];
  let unknown = columnsOf(observations, limits, leafSizes);
  const know = (column: Column, relation: Relation): void => {
    known.push(column);
    relations.push(relation);
  };
  while (unknown.length > 0) {
    const left = unknown.filter((column) => {
      const isDeclared = column.places.some((place) => limits.has(place));
      const relation =
        relationOf(column.numbers, known, modulus) ??
        // What was declared varies by itself, and would be such a difference only by chance.
        (isDeclared ? undefined : differenceOf(column.numbers, known));
      if (relation !== undefined) know(column, relation);
      return relation === undefined;
    });
    const [next] = left;
    if (left.length === unknown.length && next !== undefined) {
      if (symbols.length === MAX_SYMBOLS) return undefined;
      know(next, { kind: 'symbol', symbol: symbols.push(next) - 1 });
      left.shift();
    }
    unknown = left;
  }
  const relationOfSize = new Int32Array(first.length).fill(-1);
  for (const [index, { places }] of known.entries()) {
    for (const place of places) relationOfSize[place] = index;
  }
  const seen = largestRun(observations, symbols);
  const bound = (size: number): number => (isTight ? size : 2 ** Math.ceil(Math.log2(size)));
  return new SizeRelations({
    symbols: symbols.map(({ places: [place = 0], numbers }, index) => ({
      seen: seen[index] ?? 0,
      max: limits.get(place)?.max ?? bound(Math.max(...numbers)),
      spacing: modulus === 1 && keepsDivisors ? numbers.reduce(greatestDivisor) : modulus,
    })),
    places: symbols.map(({ places: [place = 0] }) => place),
    limits: symbols.map(({ places: [place = 0] }) => limits.get(place) ?? null),
    relations,
    relationOf: relationOfSize,
    fixed: first,
  });
}

/** Sizes that were equal in every run. */
interface Column {
  /** The number in each run. */
  readonly numbers: Sizes;
  readonly places: readonly number[];
}

/**
 * The sizes that varied or were declared, in the order in which they are tried as symbols. Declared sizes come first,
 * then sizes that are not multiples or products of others, the most frequent ones first. The sizes that a program
 * computes with thus come before those that it slices or pads to.
 */
function columnsOf(
  observations: readonly Observation[],
  limits: ReadonlyMap<number, SizeLimit>,
  leafSizes: number,
): readonly Column[] {
  const columns = new Map<string, { numbers: Sizes; places: number[] }>();
  const [first = new Float64Array()] = observations;
  const keyAt = (place: number): string => observations.map((sizes) => sizes[place]).join();
  const declared = new Set([...limits.keys()].map(keyAt));
  for (let place = 0; place < first.length; place++) {
    const varies = observations.some((sizes) => sizes[place] !== first[place]);
    if (!varies && declared.size === 0) continue;
    const key = keyAt(place);
    if (!varies && !declared.has(key)) continue;
    const known = columns.get(key);
    if (known === undefined) {
      columns.set(key, {
        numbers: observations.map((sizes) => sizes[place] ?? 0),
        places: [place],
      });
    } else if (limits.has(place)) known.places.unshift(place);
    else known.places.push(place);
  }
  const all = [...columns.values()];
  const rankOf = ({ numbers, places: [place = 0] }: Column): readonly number[] => {
    const others = all.filter((other) => other.numbers !== numbers);
    return [limits.has(place) ? 0 : 1, isMultiple(numbers, others) ? 1 : 0];
  };
  return all
    .map((column) => ({
      column,
      rank: [
        ...rankOf(column),
        -column.places.length,
        column.places.some((p) => p < leafSizes) ? 0 : 1,
      ],
    }))
    .toSorted((a, b) => {
      const at = a.rank.findIndex((value, index) => value !== b.rank[index]);
      return at < 0 ? 0 : (a.rank[at] ?? 0) - (b.rank[at] ?? 0);
    })
    .map(({ column }) => column);
}

/** Whether the numbers are a multiple of the numbers of another column, or of the product of two columns. */
function isMultiple(numbers: Sizes, others: readonly Column[]): boolean {
  return others.some(({ numbers: one }) => {
    const factor = constantOf(numbers, (at) => (numbers[at] ?? 0) / (one[at] ?? 0));
    if (factor !== undefined && Number.isInteger(factor)) return true;
    return others.some(({ numbers: other }) => isProduct(numbers, one, other) !== undefined);
  });
}

function isProduct(numbers: Sizes, one: Sizes, other: Sizes): number | undefined {
  const factor = constantOf(
    numbers,
    (at) => (numbers[at] ?? 0) / ((one[at] ?? 0) * (other[at] ?? 0)),
  );
  return factor !== undefined && Number.isInteger(factor) ? factor : undefined;
}

/** The relation of numbers to known ones. Undefined if there is none of those that programs usually have. */
function relationOf(
  numbers: Sizes,
  known: readonly Column[],
  modulus: number,
): Relation | undefined {
  for (const [of, { numbers: one }] of known.entries()) {
    const factor = constantOf(numbers, (at) => (numbers[at] ?? 0) / (one[at] ?? 0));
    if (factor !== undefined && Number.isInteger(factor)) {
      return { kind: 'linear', of, factor, addend: 0 };
    }
    const difference = constantOf(numbers, (at) => (numbers[at] ?? 0) - (one[at] ?? 0));
    if (difference !== undefined) return { kind: 'linear', of, factor: 1, addend: difference };
    const sum = constantOf(numbers, (at) => (numbers[at] ?? 0) + (one[at] ?? 0));
    if (sum !== undefined) return { kind: 'linear', of, factor: -1, addend: sum };
    for (let part = 2; part <= modulus; part *= 2) {
      const addend = constantOf(numbers, (at) => (numbers[at] ?? 0) - (one[at] ?? 0) / part);
      if (addend !== undefined) return { kind: 'linear', of, factor: 1 / part, addend };
    }
  }
  for (const [one, { numbers: a }] of known.entries()) {
    for (const [other, { numbers: b }] of known.entries()) {
      if (other < one) continue;
      const factor = isProduct(numbers, a, b);
      if (factor !== undefined) return { kind: 'product', one, other, factor };
      const addend = constantOf(numbers, (at) => (numbers[at] ?? 0) - (a[at] ?? 0) - (b[at] ?? 0));
      if (addend !== undefined) return { kind: 'sum', one, other, addend };
    }
  }
  return undefined;
}

/** The difference of known numbers. A sum may be known before its terms, if it is more frequent. */
function differenceOf(numbers: Sizes, known: readonly Column[]): Relation | undefined {
  for (const [one, { numbers: a }] of known.entries()) {
    for (const [other, { numbers: b }] of known.entries()) {
      const addend = constantOf(numbers, (at) => (numbers[at] ?? 0) - (a[at] ?? 0) + (b[at] ?? 0));
      if (addend !== undefined) return { kind: 'difference', one, other, addend };
    }
  }
  return undefined;
}

/** The number if it is the same in all runs, otherwise undefined. */
function constantOf(runs: Sizes, numberAt: (run: number) => number): number | undefined {
  const first = numberAt(0);
  const rounded = Math.round(first * 1e6) / 1e6;
  return runs.every((_, run) => Math.abs(numberAt(run) - first) < 1e-9) ? rounded : undefined;
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

/** The numbers of the symbols in the run in which their product was largest. */
function largestRun(observations: readonly Observation[], symbols: readonly Column[]): Sizes {
  const runs = observations.map((_, run) => symbols.map(({ numbers }) => numbers[run] ?? 0));
  const product = (run: Sizes): number => run.reduce((all, size) => all * size, 1);
  return runs.reduce((best, run) => (product(run) > product(best) ? run : best), runs[0] ?? []);
}
