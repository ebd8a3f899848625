import { broadcast, CollectiveMismatchError, fromData, type Tensor } from '@shardwise/core/extend';
import { bytesNow } from '../bytes-now.ts';

/**
 * The order in which gradients arrive, as rank 0 sees it in its first pass; other ranks may see
 * another one. It travels in the program of that pass. A rank knows it as soon as it computes
 * something, which need not be at the same time as the others; so all go on with it after the first update.
 */
export class ArrivalOrder {
  readonly #count: number;
  readonly #axis: string;
  readonly #seen: number[] = [];
  #shared: Tensor | null = null;
  #isSettled = false;
  #isDone = false;

  /** `count`: how many gradients there are. */
  constructor(count: number, axis: string) {
    this.#count = count;
    this.#axis = axis;
  }

  arrive(index: number): void {
    if (this.#shared === null) this.#seen.push(index);
  }

  /** Adds rank 0's order to the program; those that did not arrive come last. */
  share(): void {
    if (this.#shared !== null) return;
    const all = Array.from({ length: this.#count }, (_, index) => index);
    const order = Int32Array.from(new Set([...this.#seen, ...all]));
    this.#shared = broadcast(fromData(order, [this.#count], 'i32'), this.#axis).retain();
  }

  /** Is called when an update is built: its run is the last one that has to send the order, on all ranks. */
  settle(): void {
    this.#isSettled = this.#shared !== null;
  }

  /** Rank 0's order, once, after the update; undefined before, and where a device cannot be read at once. */
  take(): readonly number[] | undefined {
    if (this.#shared === null || !this.#isSettled || this.#isDone) return undefined;
    const bytes = bytesNow(this.#shared);
    if (bytes === undefined) return undefined;
    this.#isDone = true;
    const order = [...new Int32Array(bytes.slice().buffer)];
    this.#shared.dispose();
    const isPermutation =
      order.length === this.#count &&
      new Set(order).size === order.length &&
      order.every((index) => index >= 0 && index < order.length);
    if (isPermutation) return order;
    throw new CollectiveMismatchError(
      {
        asked: `the order of rank 0's ${this.#count} gradients`,
        found: `${order.length} numbers that do not name each of them once`,
        todo: 'Build the same model, with the same options, on every rank',
      },
      { count: this.#count },
    );
  }
}
