import { alignmentBytes } from '../memory/arena.ts';

/** A temporary value: needed from the first to the last of these pieces, both included. */
export interface Lifetime {
  readonly id: number;
  readonly byteLength: number;
  readonly first: number;
  readonly last: number;
}

export interface ScratchPlaces {
  /** Where each temporary begins, by value id. */
  readonly byteOffsets: ReadonlyMap<number, number>;
  readonly byteLength: number;
}

interface Placed extends Lifetime {
  readonly start: number;
  readonly end: number;
}

/** Places temporaries so that those alive at once do not overlap: largest first, at the lowest gap. */
export function placeScratch(lifetimes: readonly Lifetime[]): ScratchPlaces {
  const placed: Placed[] = [];
  for (const lifetime of lifetimes.toSorted((a, b) => b.byteLength - a.byteLength)) {
    const byteLength = Math.ceil(lifetime.byteLength / alignmentBytes) * alignmentBytes;
    const neighbours = placed
      .filter((other) => other.first <= lifetime.last && lifetime.first <= other.last)
      .toSorted((a, b) => a.start - b.start);
    let start = 0;
    for (const other of neighbours) {
      if (start + byteLength <= other.start) break;
      start = Math.max(start, other.end);
    }
    placed.push({ ...lifetime, start, end: start + byteLength });
  }
  return {
    byteOffsets: new Map(placed.map(({ id, start }) => [id, start])),
    byteLength: placed.reduce((total, { end }) => Math.max(total, end), 0),
  };
}
