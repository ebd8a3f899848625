import {
  allGather,
  fromData,
  noGrad,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import { bytesNow } from './bytes-now.ts';

/** Small int32 values that the ranks of some axes all-gather in the program, and read later without waiting. */
export class GatheredInts {
  readonly #axes: readonly string[];
  readonly #what: string;
  readonly #sent: Tensor[] = [];

  /** `what` says what they are about. */
  constructor(axes: readonly string[], what: string) {
    this.#axes = axes;
    this.#what = what;
  }

  /** Sends this rank's values. Adds collectives to the graph. */
  send(values: Int32Array): void {
    const own = fromData(values, [values.length], 'i32');
    const gather = (): Tensor => this.#axes.reduce((each, axis) => allGather(each, axis, 0), own);
    const all = noGrad(() =>
      withCollectiveName(`what ranks send each other of ${this.#what}`, gather),
    );
    this.#sent.push(all.retain());
  }

  /**
   * Returns the values of all ranks, in rank order, that were sent first and not returned yet. Undefined until the
   * program has run, and if none are left.
   */
  poll(): Int32Array | undefined {
    const [sent] = this.#sent;
    const bytes = sent && bytesNow(sent);
    if (bytes === undefined) return undefined;
    const values = new Int32Array(bytes.slice().buffer);
    this.#sent.shift()?.dispose();
    return values;
  }
}
