import type { Segment, Step } from './step.ts';
import { roundedByPacking } from './rounded-by-packing.ts';
import { repeatedWidenings } from './widening.ts';

/** Steps that a piece repeats wherever it needs them, instead of reading their result from memory. */
function isLazy(step: Step, repeated: ReadonlySet<number>): boolean {
  if (step.op === 'constant' || step.op === 'expand' || step.op === 'reshape') return true;
  return repeated.has(step.output);
}

/**
 * Who makes and who reads the values of a segment. Lazy steps (constants, expands, reshapes, f32 values of 16-bit ones, inputs that
 * products round as they pack them, and heads that attention reads where they lie) are looked through, but for those in `stored`, which are computed into memory like any other step.
 */
export class Dataflow {
  readonly #producers: ReadonlyMap<number, Step>;
  readonly #stored: ReadonlySet<number>;
  readonly #repeated: ReadonlySet<number>;

  /** `heads` are permutes and slices that attention reads through. */
  constructor(
    segment: Segment,
    stored: ReadonlySet<number>,
    heads: ReadonlySet<number> = new Set(),
  ) {
    this.#producers = new Map(segment.steps.map((step) => [step.output, step]));
    this.#stored = stored;
    this.#repeated = repeatedWidenings(segment).union(roundedByPacking(segment)).union(heads);
  }

  /** undefined for an input. */
  producer(id: number): Step | undefined {
    return this.#producers.get(id);
  }

  /** The step that a piece repeats to have the value, undefined where it reads memory. */
  lazy(id: number): Step | undefined {
    const step = this.#producers.get(id);
    return step !== undefined && isLazy(step, this.#repeated) && !this.#stored.has(id)
      ? step
      : undefined;
  }

  /** The values in memory that a step reads, through lazy steps. */
  sources(step: Step): Set<number> {
    const found = new Set<number>();
    const pending = [...step.inputs];
    for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
      const lazy = this.lazy(id);
      if (lazy === undefined) found.add(id);
      else pending.push(...lazy.inputs);
    }
    return found;
  }

  /** The value in memory of which this one is a reshape; undefined where it is more than that. */
  root(id: number): number | undefined {
    let current = id;
    for (;;) {
      const lazy = this.lazy(current);
      if (lazy === undefined) return current;
      const [input] = lazy.inputs;
      if (lazy.op !== 'reshape' || input === undefined) return undefined;
      current = input;
    }
  }
}
