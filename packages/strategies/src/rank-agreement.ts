import { allGather, fromData, noGrad, type Tensor } from '@shardwise/core/extend';
import { bytesNow } from './bytes-now.ts';
import { hashOf } from './hash-of.ts';

/**
 * Texts that all ranks of some axes must have alike. A rank tells the others of another one than before, in the
 * program that first has it; they are compared once that has run.
 */
export class RankAgreement {
  readonly #axes: readonly string[];
  readonly #sent: Tensor[] = [];
  #latest: string;

  /** `initial` is what all ranks have now. */
  constructor(axes: readonly string[], initial: string) {
    this.#axes = axes;
    this.#latest = initial;
  }

  /** A collective of the graph, where it is another text than the latest one. */
  say(text: string): void {
    if (text === this.#latest) return;
    this.#latest = text;
    const own = fromData(Int32Array.of(hashOf(text)), [1], 'i32');
    const all = noGrad(() => this.#axes.reduce((each, axis) => allGather(each, axis, 0), own));
    this.#sent.push(all.retain());
  }

  /** The first rank of which it is known by now that it had another text than rank 0; undefined where none had. */
  differingRank(): number | undefined {
    for (let [sent] = this.#sent; sent !== undefined; [sent] = this.#sent) {
      const bytes = bytesNow(sent);
      if (bytes === undefined) return undefined;
      const hashes = new Int32Array(bytes.slice().buffer);
      this.#sent.shift();
      sent.dispose();
      const other = hashes.findIndex((hash) => hash !== hashes[0]);
      if (other >= 0) return other;
    }
    return undefined;
  }
}
