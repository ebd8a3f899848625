import { threadId } from 'node:worker_threads';
import type { Dataset } from '../src/data/dataset.ts';
import { type NDArray, ndArray } from '../src/tensor/nd-array.ts';

/** The number of an item, and the thread that read it. */
export type Numbered = { readonly item: NDArray<'i32'>; readonly thread: NDArray<'i32'> };

export interface NumbersOptions {
  readonly length: number;
  /** The item whose reading fails. */
  readonly broken?: number;
  /** The item whose reading ends the thread. */
  readonly deadly?: number;
  /** Items below this number are slow, so that later batches are ready first. */
  readonly slowBelow?: number;
}

class Numbers implements Dataset<Numbered> {
  readonly length: number;
  readonly #options: NumbersOptions;

  constructor(options: NumbersOptions) {
    this.length = options.length;
    this.#options = options;
  }

  async get(index: number): Promise<Numbered> {
    const { broken, deadly, slowBelow = 0 } = this.#options;
    if (index === broken) throw new RangeError(`item ${index} is broken`);
    if (index === deadly) process.exit(7);
    if (index < slowBelow) await new Promise((resolve) => setTimeout(resolve, 30));
    return {
      item: ndArray(Int32Array.of(index), []),
      thread: ndArray(Int32Array.of(threadId), []),
    };
  }
}

export default function numbers(options: NumbersOptions): Dataset<Numbered> {
  return new Numbers(options);
}

export const ready: Dataset<Numbered> = new Numbers({ length: 4 });

export function failing(): never {
  throw new TypeError('cannot open the numbers');
}

export function firstOnly(samples: readonly Numbered[]): Numbered | undefined {
  return samples[0];
}
