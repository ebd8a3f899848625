import { hashOf } from '@shardwise/core/extend';
import { GatheredInts } from './gathered-ints.ts';

/**
 * Checks a text that must be the same on all ranks of some axes. When a rank's text changes, it tells the others in the
 * program that first uses the new text. The texts are compared after this program has run.
 */
export class RankAgreement {
  readonly #hashes: GatheredInts;
  #latest: string;

  /** `initial` is the text that all ranks have now, and `what` says what it is about. */
  constructor(axes: readonly string[], initial: string, what: string) {
    this.#hashes = new GatheredInts(axes, what);
    this.#latest = initial;
  }

  /** Sets the text. If it differs from the latest one, this adds a collective to the graph. */
  say(text: string): void {
    if (text === this.#latest) return;
    this.#latest = text;
    this.#hashes.send(Int32Array.of(hashOf(text)));
  }

  /** Returns the first rank that is known to have had another text than rank 0. Undefined if there is none so far. */
  differingRank(): number | undefined {
    for (let all = this.#hashes.poll(); all !== undefined; all = this.#hashes.poll()) {
      const other = all.findIndex((hash, _, [first]) => hash !== first);
      if (other >= 0) return other;
    }
    return undefined;
  }
}
