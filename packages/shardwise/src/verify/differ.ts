import { roundoffs } from './describe-plan.ts';
import type { Elements, RankRecord, RecordedValue, ValuePlace } from './records.ts';
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
    if (!(value.elements instanceof Float32Array) || value.kind === 'initial') return 0;
    const runs = [value, ...this.#moved.flatMap((moved) => moved.get(keyOf(value)) ?? [])];
    if (value.kind !== 'parameter') {
      return this.#bound(runs.map(({ elements }) => elements));
    }
    // A parameter is compared by what the update has changed. It is rounded itself, before the update and after it.
    const changes = [this.#one, ...this.#moved].flatMap((run) => this.#changeIn(run, value) ?? []);
    return this.#bound(changes) + 4 * (roundoffs[value.dtype] ?? 0) * largestOf(value.elements);
  }

  /**
   * What an updated parameter may differ by beyond its tolerance, for each element. Optimizers such as Adam divide the
   * gradient by its size, so an update has the relative error of the gradient: what rounding explains of it, over the
   * gradient. Where the gradient is nothing but rounding, as that of a bias before a batch norm, not even the sign of the
   * update is known. Null: nothing. It is that of one update, because each is compared from what the rank had before it:
   * what earlier updates were allowed is no excuse for this one.
   */
  slackOf(value: RecordedValue): Float32Array | null {
    if (value.kind !== 'parameter') return null;
    const gradient = this.#one.get(keyOf({ ...value, kind: 'gradient' }));
    const change = this.#changeIn(this.#one, value);
    if (gradient === undefined || change === null) return null;
    const noise = this.of(gradient);
    const move = 2 * largestOf(change);
    const { elements } = gradient;
    return Float32Array.from(elements.keys(), (at) => {
      const size = Math.abs(Number(elements[at]));
      return move * (size <= noise ? 1 : noise / size);
    });
  }

  /** The elements of the parameter before the update that made it, in the run of one rank. */
  beforeOf(value: RecordedValue): Elements | null {
    return beforeIn(this.#one, value);
  }

  /** What the update has changed in a run. */
  #changeIn(run: ReadonlyMap<string, RecordedValue>, value: RecordedValue): Float32Array | null {
    const after = run.get(keyOf(value))?.elements;
    const before = beforeIn(run, value);
    if (after === undefined || before === null) return null;
    return Float32Array.from(after.keys(), (at) => Number(after[at]) - Number(before[at]));
  }

  /** The bound of values of which the runs have these. The first is the run of one rank that was not moved. */
  #bound(runs: readonly Elements[]): number {
    const [elements = new Float32Array()] = runs;
    let [spread, largest] = [0, 0];
    for (const [index, own] of elements.entries()) {
      if (Number.isFinite(own)) largest = Math.max(largest, Math.abs(Number(own)));
      const all = runs.map((run) => Number(run[index])).filter(Number.isFinite);
      if (all.length > 1) spread = Math.max(spread, Math.max(...all) - Math.min(...all));
    }
    return 4 * (spread + this.#perturbation * largest);
  }
}

/** The elements of a parameter before an update, as a run has recorded them. Null: it has not. */
export function beforeIn(
  run: ReadonlyMap<string, RecordedValue>,
  { name, step, ...place }: ValuePlace,
): Elements | null {
  const kind = step === 1 ? 'initial' : 'parameter';
  return run.get(keyOf({ ...place, name, kind, step: step - 1 }))?.elements ?? null;
}

/** The largest size of an element. */
function largestOf(elements: Elements): number {
  let largest = 0;
  for (const element of elements) largest = Math.max(largest, Math.abs(Number(element)) || 0);
  return largest;
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
