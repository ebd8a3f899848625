import { type SequenceRanks, SequenceCut } from './sequence-cut.ts';

/**
 * How the sequences of a pass are cut, which may be of several lengths, such as the tokens of a decoder and those of its
 * encoder. Sequences of one length are cut alike. Those of other lengths have other numbers of places on a rank, if need be by
 * more padding, so that a tensor tells by its size of which sequence it has tokens.
 */
export class SequenceCuts {
  /** The cut of each length, in the order in which the lengths were given. */
  readonly all: readonly SequenceCut[];

  constructor(lengths: readonly number[], over: SequenceRanks) {
    const all: SequenceCut[] = [];
    const taken = new Set<number>();
    for (const length of new Set(lengths)) {
      let cut = new SequenceCut(length, over);
      while (taken.has(cut.localLength)) {
        cut = new SequenceCut(length, over, cut.paddedLength + 1);
      }
      taken.add(cut.localLength);
      all.push(cut);
    }
    this.all = all;
  }

  /** The cut of whole sequences of so many tokens. Undefined: there are none. */
  ofLength(length: number | undefined): SequenceCut | undefined {
    return this.all.find((cut) => cut.length === length);
  }

  /** The cut of which a rank has so many places. Undefined: there is none. */
  ofLocalLength(localLength: number | undefined): SequenceCut | undefined {
    return this.all.find((cut) => cut.localLength === localLength);
  }

  /** The first cut with padding. Undefined: none has any. */
  get padded(): SequenceCut | undefined {
    return this.all.find(({ paddedLength, length }) => paddedLength > length);
  }
}
