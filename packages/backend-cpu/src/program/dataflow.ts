import type { Segment, Step } from './instruction.ts';

/**
 * Whether a step is lazy: a piece repeats it wherever it needs the result, instead of reading the result from memory.
 */
function isLazy(step: Step, repeated: ReadonlySet<number>): boolean {
  if (step.op === 'constant' || step.op === 'expand' || step.op === 'reshape') return true;
  return repeated.has(step.output);
}

/**
 * Knows which step makes a value of a segment, and which values in memory a step reads. Lazy steps are looked through:
 * constants, expands, reshapes, and those in `repeated`: f32 values of 16-bit ones, inputs that products round as they
 * pack them, and heads that attention reads where they lie. Those in `stored` are not lazy, but computed into memory
 * like any other step.
 */
export class Dataflow {
  readonly #producers: ReadonlyMap<number, Step>;
  readonly #stored: ReadonlySet<number>;
  readonly #repeated: ReadonlySet<number>;

  constructor(segment: Segment, repeated: ReadonlySet<number>, stored: ReadonlySet<number>) {
    this.#producers = new Map(segment.steps.map((step) => [step.output, step]));
    this.#stored = stored;
    this.#repeated = repeated;
  }

  /** Returns the step that makes a value. Returns undefined for an input. */
  producer(id: number): Step | undefined {
    return this.#producers.get(id);
  }

  /**
   * Returns the step that a piece repeats to have the value. Returns undefined if the piece reads the value from
   * memory.
   */
  lazy(id: number): Step | undefined {
    const step = this.#producers.get(id);
    return step !== undefined && isLazy(step, this.#repeated) && !this.#stored.has(id)
      ? step
      : undefined;
  }

  /** The values in memory that a step reads, directly or through lazy steps. */
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

  /**
   * Returns the value in memory that this value is a reshape of. Returns undefined if lazy steps other than reshapes
   * lie between.
   */
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
