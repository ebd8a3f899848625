import {
  allGather,
  fromData,
  noGrad,
  type Tensor,
  withCollectiveName,
} from '@shardwise/core/extend';
import { bytesNow } from './bytes-now.ts';

/**
 * Words of 32 bits that the ranks of some axes tell each other in the program. No rank waits for what the others say.
 */
export class ToldWords {
  readonly #axes: readonly string[];
  readonly #what: string;
  readonly #sent: Tensor[] = [];

  /** `what` says what they are about. */
  constructor(axes: readonly string[], what: string) {
    this.#axes = axes;
    this.#what = what;
  }

  /** Tells this rank's words. Adds collectives to the graph. */
  tell(words: Int32Array): void {
    const own = fromData(words, [words.length], 'i32');
    const gather = (): Tensor => this.#axes.reduce((each, axis) => allGather(each, axis, 0), own);
    const all = noGrad(() =>
      withCollectiveName(`what ranks tell each other of ${this.#what}`, gather),
    );
    this.#sent.push(all.retain());
  }

  /**
   * Returns the words of all ranks, in rank order, that were told first and not taken yet. Undefined until the program
   * has run, and if none are left.
   */
  take(): Int32Array | undefined {
    const [sent] = this.#sent;
    const bytes = sent && bytesNow(sent);
    if (bytes === undefined) return undefined;
    const words = new Int32Array(bytes.slice().buffer);
    this.#sent.shift()?.dispose();
    return words;
  }
}
