import { allGather, fromData, noGrad, type Tensor } from '@shardwise/core/extend';
import { bytesNow } from './bytes-now.ts';

/** Words of 32 bits that the ranks of some axes tell each other in the program, without waiting for what the others say. */
export class ToldWords {
  readonly #axes: readonly string[];
  readonly #sent: Tensor[] = [];

  constructor(axes: readonly string[]) {
    this.#axes = axes;
  }

  /** A collective of the graph. */
  tell(words: Int32Array): void {
    const own = fromData(words, [words.length], 'i32');
    const all = noGrad(() => this.#axes.reduce((each, axis) => allGather(each, axis, 0), own));
    this.#sent.push(all.retain());
  }

  /** What was told first, of all ranks in their order, once the program has run; undefined before, and where nothing is left. */
  take(): Int32Array | undefined {
    const [sent] = this.#sent;
    const bytes = sent && bytesNow(sent);
    if (bytes === undefined) return undefined;
    const words = new Int32Array(bytes.slice().buffer);
    this.#sent.shift()?.dispose();
    return words;
  }
}
