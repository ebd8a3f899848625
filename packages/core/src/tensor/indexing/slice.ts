import { describeValue, ShapeError } from '../../spec/errors.ts';

/** A range of the elements of a dim, like a slice of Python. */
export class Slice {
  readonly #start: number | null;
  readonly #stop: number | null;
  readonly #step: number;

  constructor(start: number | null, stop: number | null, step: number) {
    for (const end of [start, stop]) {
      if (end !== null && !Number.isSafeInteger(end)) throw fault(end, 'no whole number');
    }
    if (!Number.isSafeInteger(step) || step < 1) {
      throw fault(
        step,
        'a step that is not 1 or more, as PyTorch has none',
        'Use flip() to go backwards',
      );
    }
    this.#start = start;
    this.#stop = stop;
    this.#step = step;
  }

  /** Resolves the ends of the range for a dim of this size. */
  of(size: number): { readonly start: number; readonly stop: number; readonly step: number } {
    const within = (end: number): number => Math.min(size, Math.max(0, end < 0 ? end + size : end));
    const start = within(this.#start ?? 0);
    return { start, stop: Math.max(start, within(this.#stop ?? size)), step: this.#step };
  }

  toString(): string {
    return `slice(${this.#start}, ${this.#stop}, ${this.#step})`;
  }
}

/**
 * The elements of a dim from start to stop, for `at`, like Python's slice. An end that is null is open, and an end
 * below 0 counts from the end of the dim. Throws ShapeError for a step below 1.
 */
export function slice(start: number | null, stop: number | null = null, step = 1): Slice {
  return new Slice(start, stop, step);
}

function fault(given: unknown, found: string, todo = 'Use whole numbers, or null'): ShapeError {
  return new ShapeError({ asked: `slice with ${describeValue(given)}`, found, todo }, {});
}
