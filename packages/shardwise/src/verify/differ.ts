import type { Elements, RankRecord, RecordedValue } from './records.ts';
import { keyOf } from './records.ts';

/** The greatest difference between a value of a rank and what it should be. */
export interface Difference {
  /** The place among the elements. */
  readonly at: number;
  readonly found: number;
  readonly expected: number;
}

/**
 * Returns the element that differs most, or null if none differs by more than the tolerance. `slack` has what is allowed
 * beyond it, for each element.
 */
export function differenceOf(
  found: Elements,
  expected: Elements,
  tolerance: number,
  slack: Elements | null = null,
): Difference | null {
  let [worst, at] = [0, -1];
  for (let index = 0; index < expected.length; index++) {
    const [a, b] = [Number(found[index] ?? Number.NaN), Number(expected[index])];
    if (Object.is(a, b) || a === b) continue;
    // NaN and infinities are right only where one rank has them, too.
    const distance = Math.abs(a - b);
    const isFar = Number.isNaN(distance) ? Infinity : distance;
    if (isFar <= worst || isFar <= tolerance + Number(slack?.[index] ?? 0)) continue;
    [worst, at] = [isFar, index];
  }
  if (at < 0) return null;
  return { at, found: Number(found[at] ?? Number.NaN), expected: Number(expected[at]) };
}

/**
 * How much of a difference rounding explains. The run of one rank is made three times; in the second and the third,
 * every parameter and datum is moved at random by as much as rounding can move the longest sums of the program,
 * `perturbation`. What this does to a value is what rounding can do to it: the greatest difference between two of the
 * runs. Both runs that are compared round, and the moves are only two samples, so the bound is twice that for each. The
 * second term is the rounding of the value itself, for values that no move reached.
 */
export class Tolerances {
  readonly #one: ReadonlyMap<string, RecordedValue>;
  readonly #moved: readonly ReadonlyMap<string, RecordedValue>[];
  readonly #perturbation: number;

  constructor(one: RankRecord, moved: readonly RankRecord[], perturbation: number) {
    this.#one = new Map(one.values.map((value) => [keyOf(value), value]));
    this.#moved = moved.map(({ values }) => new Map(values.map((value) => [keyOf(value), value])));
    this.#perturbation = perturbation;
  }

  of(value: RecordedValue): number {
    const { elements } = value;
    if (!(elements instanceof Float32Array)) return 0;
    if (value.kind === 'initial') return 0;
    const runs = [
      elements,
      ...this.#moved.flatMap((moved) => moved.get(keyOf(value))?.elements ?? []),
    ];
    let [spread, largest] = [0, 0];
    for (const [index, own] of elements.entries()) {
      if (Number.isFinite(own)) largest = Math.max(largest, Math.abs(own));
      const all = runs.map((run) => Number(run[index])).filter(Number.isFinite);
      if (all.length > 1) spread = Math.max(spread, Math.max(...all) - Math.min(...all));
    }
    return 4 * (spread + this.#perturbation * largest);
  }

  /**
   * What an updated parameter may differ by beyond its tolerance, for each element. Optimizers such as Adam divide the
   * gradient by its size, so an update has the relative error of the gradient: what rounding explains of it, over the
   * gradient. Where the gradient is nothing but rounding, as that of a bias before a batch norm, not even the sign of the
   * update is known. Null: nothing.
   */
  slackOf(value: RecordedValue): Float32Array | null {
    if (value.kind !== 'parameter') return null;
    const slack = new Float32Array(value.elements.length);
    const keyAt = (kind: RecordedValue['kind'], step: number): string =>
      keyOf({ ...value, kind, step });
    for (let step = 1; step <= value.step; step++) {
      const gradient = this.#one.get(keyAt('gradient', step));
      const after = this.#one.get(keyAt('parameter', step));
      const before = this.#one.get(keyAt(step === 1 ? 'initial' : 'parameter', step - 1));
      if (gradient === undefined || after === undefined || before === undefined) continue;
      const noise = this.of(gradient);
      const move = 2 * greatestMove(after.elements, before.elements);
      for (const [index, own] of slack.entries()) {
        const size = Math.abs(Number(gradient.elements[index]));
        slack[index] = own + move * (size <= noise ? 1 : noise / size);
      }
    }
    return slack;
  }
}

/** The greatest difference of two lists of numbers. */
function greatestMove(a: Elements, b: Elements): number {
  let move = 0;
  for (let index = 0; index < a.length; index++) {
    move = Math.max(move, Math.abs(Number(a[index]) - Number(b[index] ?? Number.NaN)) || 0);
  }
  return move;
}

/**
 * By how much rounding moves the longest sum of a program, relative to its terms: the unit roundoff times the square
 * root of their number, as errors of either sign add up (Higham, Accuracy and Stability of Numerical Algorithms, 2.8).
 * A layer has two such sums, one in either pass.
 */
export function perturbationOf(records: readonly RankRecord[]): number {
  const roundoff = Math.max(...records.map(({ plan }) => plan.roundoff));
  let batch = 1;
  for (const record of records) {
    const sizes = record.passes.flatMap(({ shapes }) =>
      shapes.map((shape) => shape.reduce((product, size) => product * size, 1)),
    );
    batch += Math.max(0, ...sizes);
  }
  const dims = records.flatMap(({ values }) => values.flatMap(({ shape }) => shape));
  return 2 * roundoff * Math.sqrt(Math.max(batch, ...dims.slice(0, 10_000)));
}
