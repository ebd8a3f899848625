import {
  broadcast,
  CollectiveMismatchError,
  fromData,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import { bytesNow } from '../agreement/bytes-now.ts';

/**
 * The order in which gradients arrive, as rank 0 sees it in its first pass. Other ranks may see another order. It is a
 * value in the program of that pass. Ranks may know it at different times, because each learns it when it computes
 * something. So all ranks begin to use it after the first update.
 */
export class ArrivalOrder {
  readonly #count: number;
  readonly #axis: string;
  readonly #name: string;
  readonly #seen: number[] = [];
  #shared: Tensor | null = null;
  #isSettled = false;
  #isDone = false;

  /** `count` is the number of gradients, and `model` what names of its collectives end with. */
  constructor(count: number, axis: string, model: string) {
    this.#count = count;
    this.#axis = axis;
    this.#name = `the order in which gradients arrive${model}`;
  }

  arrive(index: number): void {
    if (this.#shared === null) this.#seen.push(index);
  }

  /** Adds rank 0's order to the program. Gradients that did not arrive come last. */
  share(): void {
    if (this.#shared !== null) return;
    const all = Array.from({ length: this.#count }, (_, index) => index);
    const order = Int32Array.from(new Set([...this.#seen, ...all]));
    const own = fromData(order, [this.#count], 'i32');
    const send = (): Tensor => broadcast(own, this.#axis);
    this.#shared = withCollectiveName(this.#name, send).retain();
  }

  /** Call this when an update is built. The order has been sent by the end of the run of that update, on every rank. */
  settle(): void {
    this.#isSettled = this.#shared !== null;
  }

  /**
   * Returns rank 0's order the first time it is called after the update. Returns undefined before that, and if the
   * device cannot be read synchronously.
   */
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
