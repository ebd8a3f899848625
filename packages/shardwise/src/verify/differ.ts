import type { Elements, RankRecord, RecordedValue } from './records.ts';
import { keyOf } from './records.ts';

/** The greatest difference between a value of a rank and what it should be. */
export interface Difference {
  /** The place among the elements. */
  readonly at: number;
  readonly found: number;
  readonly expected: number;
}

/** Returns the element that differs most, or null if none differs by more than the tolerance. */
export function differenceOf(
  found: Elements,
  expected: Elements,
  tolerance: number,
): Difference | null {
  let [worst, at] = [tolerance, -1];
  for (let index = 0; index < expected.length; index++) {
    const [a, b] = [Number(found[index] ?? Number.NaN), Number(expected[index])];
    if (Object.is(a, b) || a === b) continue;
    // NaN and infinities are right only where one rank has them, too.
    const distance = Math.abs(a - b);
    const isFar = Number.isNaN(distance) ? Infinity : distance;
    if (isFar <= worst) continue;
    [worst, at] = [isFar, index];
  }
  if (at < 0) return null;
  return { at, found: Number(found[at] ?? Number.NaN), expected: Number(expected[at]) };
}

/**
 * How much of a difference rounding explains. The run of one rank is made twice; the second time, every parameter and
 * datum is moved by as much as rounding can move the longest sum of the program, `perturbation`. What this does to a
 * value is what rounding can do to it. Both runs round, and the moves are random ones, so the bound is twice the
 * greatest move for each. The second term is the rounding of the value itself, for values that no move reached.
 */
export class Tolerances {
  readonly #moved: ReadonlyMap<string, RecordedValue>;
  readonly #perturbation: number;

  constructor(moved: RankRecord, perturbation: number) {
    this.#moved = new Map(moved.values.map((value) => [keyOf(value), value]));
    this.#perturbation = perturbation;
  }

  of(value: RecordedValue): number {
    const { elements } = value;
    if (!(elements instanceof Float32Array)) return 0;
    if (value.kind === 'initial') return 0;
    const moved = this.#moved.get(keyOf(value))?.elements;
    let [spread, largest] = [0, 0];
    for (let index = 0; index < elements.length; index++) {
      const own = elements[index] ?? 0;
      if (!Number.isFinite(own)) continue;
      largest = Math.max(largest, Math.abs(own));
      const other = Number(moved?.[index] ?? own);
      if (Number.isFinite(other)) spread = Math.max(spread, Math.abs(own - other));
    }
    return 4 * (spread + this.#perturbation * largest);
  }
}

/**
 * By how much rounding moves the longest sum of a program, relative to its terms: the unit roundoff times the square
 * root of their number, as errors of either sign add up (Higham, Accuracy and Stability of Numerical Algorithms, 2.8).
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
  return roundoff * Math.sqrt(Math.max(batch, ...dims.slice(0, 10_000)));
}
