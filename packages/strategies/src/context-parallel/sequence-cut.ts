/** A stretch of the places of a sequence, from `start` up to, but not including, `stop`. */
export interface Stretch {
  readonly start: number;
  readonly stop: number;
}

/** How sequences are cut. */
export interface SequenceRanks {
  /** The number of ranks, which is a multiple of `neighbours`. */
  readonly ranks: number;
  /** How many neighbouring ranks have a block of the sequence together, whose heads they divide. */
  readonly neighbours: number;
  /**
   * `headTail`: a block is a piece from the front and a piece from the back, so that all blocks have the same number of
   * pairs of causal attention (Zhu 2024, "zigzag"). `contiguous`: blocks follow each other.
   */
  readonly order: 'headTail' | 'contiguous';
}

/**
 * Says which places of a sequence of T tokens each rank has. Inputs, labels, positions, masks, keys and results are all
 * cut by this. A sequence that cannot be cut evenly is thought longer: places from T on are padding.
 *
 * Ranks are in groups of `neighbours`. Each group has a block. With the order `headTail`, the sequence is cut into
 * two pieces for each group, and group b has the pieces b and 2 groups - 1 - b. The ranks of a group have stretches of
 * its block that follow each other.
 */
export class SequenceCut {
  /** The number of tokens, T. */
  readonly length: number;
  readonly over: SequenceRanks;
  /** The number of places of a rank, padding included. */
  readonly localLength: number;

  /** With `places`, there is padding up to at least so many places. */
  constructor(length: number, over: SequenceRanks, places: number = length) {
    this.length = length;
    this.over = over;
    this.localLength = (Math.ceil(places / this.multiple) * this.multiple) / over.ranks;
  }

  /** Sequences whose number of tokens is a multiple of this need no padding. */
  get multiple(): number {
    const { ranks, neighbours, order } = this.over;
    const isHalved = order === 'headTail' && this.groups > 1 && neighbours % 2 === 1;
    return isHalved ? 2 * ranks : ranks;
  }

  /** T and the padding. */
  get paddedLength(): number {
    return this.localLength * this.over.ranks;
  }

  get groups(): number {
    return this.over.ranks / this.over.neighbours;
  }

  /** The stretches of a group's block, in ascending order. */
  stretchesOfGroup(group: number): readonly Stretch[] {
    const { groups } = this;
    const width = this.localLength * this.over.neighbours;
    if (this.over.order === 'contiguous' || groups === 1) {
      return [{ start: group * width, stop: (group + 1) * width }];
    }
    const piece = width / 2;
    return [group, 2 * groups - 1 - group].map((index) => {
      return { start: index * piece, stop: (index + 1) * piece };
    });
  }

  /** The stretches of a rank, in ascending order. */
  stretchesOf(rank: number): readonly Stretch[] {
    const { neighbours } = this.over;
    const first = (rank % neighbours) * this.localLength;
    const block = this.stretchesOfGroup(Math.floor(rank / neighbours));
    return within(block, first, first + this.localLength);
  }

  /** The places of a rank's tokens, in their order. */
  placesOf(rank: number): Int32Array<ArrayBuffer> {
    return Int32Array.from(
      this.stretchesOf(rank).flatMap(({ start, stop }) =>
        Array.from({ length: stop - start }, (_, at) => start + at),
      ),
    );
  }

  /**
   * Where the places of the sequence lie if the parts of all ranks, or the blocks of all groups, lie behind each other:
   * stretches of those, in the order of the sequence.
   */
  inOrder(of: 'ranks' | 'groups'): readonly Stretch[] {
    const count = of === 'ranks' ? this.over.ranks : this.groups;
    const width = this.paddedLength / count;
    const all = Array.from({ length: count }, (_, index) => {
      const own = of === 'ranks' ? this.stretchesOf(index) : this.stretchesOfGroup(index);
      let offset = index * width;
      return own.map(({ start, stop }) => {
        const at = offset;
        offset += stop - start;
        return { place: start, start: at, stop: offset };
      });
    }).flat();
    return joined(all.sort((a, b) => a.place - b.place));
  }

  /**
   * The pairs of a query and a key that it sees, for each rank, if attention is causal. The ranks of a group each compute
   * the pairs of their block for their heads, which count as that part of the pairs.
   */
  causalPairs(): readonly number[] {
    const before = (place: number): number => pairsBefore(Math.min(place, this.length));
    return Array.from({ length: this.over.ranks }, (_, rank) => {
      const block = this.stretchesOfGroup(Math.floor(rank / this.over.neighbours));
      const pairs = block.reduce((sum, { start, stop }) => sum + before(stop) - before(start), 0);
      return pairs / this.over.neighbours;
    });
  }
}

/** The part of stretches that lies between two places, if they lie behind each other. */
function within(stretches: readonly Stretch[], first: number, end: number): readonly Stretch[] {
  let offset = 0;
  return stretches.flatMap(({ start, stop }) => {
    const placeAt = (at: number): number => Math.min(Math.max(start + at - offset, start), stop);
    const [from, to] = [placeAt(first), placeAt(end)];
    offset += stop - start;
    return from < to ? [{ start: from, stop: to }] : [];
  });
}

/** Joins stretches that follow each other. */
function joined(stretches: readonly Stretch[]): readonly Stretch[] {
  const all: { start: number; stop: number }[] = [];
  for (const { start, stop } of stretches) {
    const last = all.at(-1);
    if (last?.stop === start) last.stop = stop;
    else all.push({ start, stop });
  }
  return all;
}

/** The number of pairs of causal attention whose query is before a place. */
function pairsBefore(place: number): number {
  return (place * (place + 1)) / 2;
}
