import type { Sizes, SizeSymbol } from '../spec/backend.ts';

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
   * sizes.
   */
  static of<T>(
    symbols: readonly SizeSymbol[],
    evaluateAt: (sizes: Sizes) => T,
  ): Sized<T> | undefined {
    for (const points of samplePoints(symbols)) {
      try {
        const part = join(points.map(evaluateAt), points);
        return new Sized(part, symbols);
      } catch {
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

/**
 * A formula for a number: the product of powers of symbols, of powers of symbols plus a shift, and of a constant plus
 * a sum of multiples of symbols.
 */
export interface SizeFormula {
  readonly powers?: Sizes;
  /** For each symbol, the number that is added to it in its shifted factor. Null if it has no such factor. */
  readonly shifts?: readonly (number | null)[];
  /** The power of the shifted factors. Default: 1. */
  readonly shiftPower?: number;
  readonly constant: number;
  readonly slopes?: Sizes;
}

function numberAt(formula: SizeFormula, sizes: Sizes): number {
  const { powers, shifts, shiftPower = 1, constant, slopes } = formula;
  let factor = 1;
  let divisor = 1;
  let sum = constant;
  sizes.forEach((size, index) => {
    const power = powers?.[index] ?? 0;
    if (power > 0) factor *= size ** power;
    else if (power < 0) divisor *= size ** -power;
    const shift = shifts?.[index] ?? null;
    if (shift !== null) factor *= (size + shift) ** shiftPower;
    sum += (slopes?.[index] ?? 0) * size;
  });
  return nearInteger((factor * sum) / divisor);
}

/** How much two computations of one number may differ, relative to it. */
const ROUNDING = 1e-11;

function nearInteger(value: number): number {
  const integer = Math.round(value);
  return Math.abs(value - integer) <= ROUNDING * Math.abs(value) ? integer : value;
}

function isAlmost(a: number, b: number): boolean {
  return Math.abs(a - b) <= ROUNDING * Math.max(Math.abs(a), Math.abs(b));
}

function largest(
  { powers, shifts, shiftPower = 1, constant, slopes }: SizeFormula,
  symbols: readonly SizeSymbol[],
): number {
  let factor = 1;
  let sum = constant;
  symbols.forEach(({ max }, index) => {
    const power = powers?.[index] ?? 0;
    const slope = slopes?.[index] ?? 0;
    const shift = shifts?.[index] ?? null;
    factor *= (power < 0 ? 2 : max) ** power;
    if (shift !== null) factor *= Math.max(max + shift, 2 + shift, 0) ** shiftPower;
    sum += slope * (slope < 0 ? 2 : max);
  });
  return Math.max(0, Math.ceil(nearInteger(factor * sum)));
}

/**
 * The distances, in multiples of `spacing`, from the value that was seen of a symbol to the values that are tried. Each
 * list has even and odd distances, so that a number that depends on whether a size is even is noticed.
 */
const sampleOffsets = [
  [1, 2, 4, 7],
  [3, 6, 8, 13],
  [5, 9, 10, 18],
  [0, 1, 2, 3],
] as const;

/** If the seen value is below this many times `spacing`, larger sizes are tried, because there are too few smaller. */
const FEW_SIZES = 20;

/**
 * Choices of points to look at, the best choice first. Each choice has a base point, one point for each symbol that
 * differs from the base in that symbol alone, and two points that differ from it in all symbols. The sizes are below
 * those seen, because programs have limits, such as the number of rows of a table. The largest size seen may be such a
 * limit, so the choice that contains it comes last. No two symbols get the same number, because programs merge what is
 * equal.
 */
function samplePoints(symbols: readonly SizeSymbol[]): readonly (readonly Sizes[])[] {
  return sampleOffsets.map((offsets) => {
    const taken = new Set<number>();
    const numbers = symbols.map((symbol) => {
      let shift = 0;
      let tried = numbersNear(symbol, offsets, shift);
      while (tried.some((number) => taken.has(number))) {
        tried = numbersNear(symbol, offsets, ++shift);
      }
      for (const number of tried) taken.add(number);
      return tried;
    });
    const [base = [], other = [], ...others] = offsets.map((_, at) =>
      numbers.map((tried) => tried[at] ?? 0),
    );
    return [base, ...other.map((size, index) => base.with(index, size)), ...others];
  });
}

function numbersNear(
  { seen, spacing }: SizeSymbol,
  offsets: readonly number[],
  shift: number,
): readonly number[] {
  const direction = seen < FEW_SIZES * spacing ? spacing : -spacing;
  return offsets.map((offset) => seen + (offset + shift) * direction);
}

/** The formula of a number that has these values at the points of a choice. Undefined if it has no formula. */
function formulaOf(values: readonly number[], points: readonly Sizes[]): SizeFormula | undefined {
  const [base = []] = points;
  const [first = 0] = values;
  const otherOf = (index: number): { readonly size: number; readonly value: number } => ({
    size: points[index + 1]?.[index] ?? 0,
    value: values[index + 1] ?? 0,
  });
  const found = base.map((size, index) => {
    const other = otherOf(index);
    return powerOf(other.value / first, other.size / size);
  });
  const powers = found.map((power) => power ?? 0);
  const factor = base.reduce((product, size, index) => product * size ** (powers[index] ?? 0), 1);
  const slopes = base.map((size, index) => {
    const other = otherOf(index);
    if (found[index] !== undefined) return 0;
    return nearInteger((other.value - first) / factor / (other.size - size));
  });
  const linear = base.reduce((sum, size, index) => sum + size * (slopes[index] ?? 0), 0);
  const sum = { powers, constant: nearInteger(first / factor - linear), slopes };
  const isFormula = (formula: SizeFormula): boolean =>
    points.every((point, index) => isAlmost(numberAt(formula, point), values[index] ?? 0));
  if (isFormula(sum)) return sum;
  return [1, 2]
    .map((shiftPower) => {
      const shifts = base.map((size, index) => {
        if (found[index] !== undefined) return null;
        const other = otherOf(index);
        const ratio = (other.value / first) ** (1 / shiftPower);
        return nearInteger((other.size - ratio * size) / (ratio - 1));
      });
      const shifted = base.reduce((product, size, index) => {
        const shift = shifts[index] ?? null;
        return shift === null ? product : product * (size + shift) ** shiftPower;
      }, factor);
      return { powers, shifts, shiftPower, constant: nearInteger(first / shifted) };
    })
    .find(isFormula);
}

const powersTried = [0, 1, 2, 3, -1, 4, -2] as const;

function powerOf(ratio: number, step: number): number | undefined {
  return powersTried.find((power) => isAlmost(ratio, step ** power));
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
    const entries = joinData(
      samples.map((sample) => [...sample]),
      points,
    );
    return 'fixed' in entries
      ? { fixed: first }
      : { make: (evaluate) => new Map(entriesOf(entries.make(evaluate))) };
  }
  if (samples.every((sample) => sample instanceof Set)) {
    const items = joinData(
      samples.map((sample) => [...sample]),
      points,
    );
    if ('fixed' in items) return { fixed: first };
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
  return { make: (evaluate) => parts.map((part) => valueOf(part, evaluate)) };
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
  if ('fixed' in fields) return { fixed: first };
  return {
    make: (evaluate) => {
      const values = fields.make(evaluate);
      return Object.fromEntries(names.map((name, index) => [name, values[index]]));
    },
  };
}

function entriesOf(list: unknown): (readonly [unknown, unknown])[] {
  return Array.isArray(list) ? list.map((entry: readonly unknown[]) => [entry[0], entry[1]]) : [];
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  );
}

/** A value of a program. */
interface SizedValue {
  readonly op?: string;
  readonly shape: readonly number[];
}

/**
 * Wraps `evaluateAt`: the result throws a RangeError if other values have sizes of 0 or 1 than at the sizes seen. Values with
 * such sizes are empty or repeated, and programs compute them in another way. A program is therefore only looked at
 * where the same values have these sizes as in its runs.
 */
export function rejectDegenerateSizes<T>(
  symbols: readonly SizeSymbol[],
  evaluateAt: (sizes: Sizes) => T,
  valuesOf: (found: T) => Iterable<SizedValue>,
): (sizes: Sizes) => T {
  let usual: string | undefined;
  return (sizes) => {
    usual ??= specialSizes(valuesOf(evaluateAt(symbols.map(({ seen }) => seen))));
    const found = evaluateAt(sizes);
    if (specialSizes(valuesOf(found)) !== usual) throw new RangeError('sizes that are special');
    return found;
  };
}

/** Lists which dims of the values have size 0 or 1. Throws RangeError for sizes that no value can have. */
function specialSizes(values: Iterable<SizedValue>): string {
  const found = new Set<string>();
  for (const { op = 'input', shape } of values) {
    for (const [dim, size] of shape.entries()) {
      if (!Number.isInteger(size) || size < 0) throw new RangeError(`a size of ${size}`);
      if (size < 2) found.add(`${op} ${shape.length} ${dim} ${size}`);
    }
  }
  return [...found].toSorted().join();
}
