import { hashOf } from './hash-of.ts';
import { ToldWords } from './told-words.ts';

/**
 * Texts that all ranks of some axes must have alike. A rank tells the others of another one than before, in the
 * program that first has it; they are compared once that has run.
 */
export class RankAgreement {
  readonly #hashes: ToldWords;
  #latest: string;

  /** `initial` is what all ranks have now. */
  constructor(axes: readonly string[], initial: string) {
    this.#hashes = new ToldWords(axes);
    this.#latest = initial;
  }

  /** A collective of the graph, where it is another text than the latest one. */
  say(text: string): void {
    if (text === this.#latest) return;
    this.#latest = text;
    this.#hashes.tell(Int32Array.of(hashOf(text)));
  }

  /** The first rank of which it is known by now that it had another text than rank 0; undefined where none had. */
  differingRank(): number | undefined {
    for (let all = this.#hashes.take(); all !== undefined; all = this.#hashes.take()) {
      const other = all.findIndex((hash, _, [first]) => hash !== first);
      if (other >= 0) return other;
    }
    return undefined;
  }
}
