/** A value that needs memory from the first to the last of a program's steps, both included. */
export interface Lifetime {
  readonly id: number;
  readonly byteLength: number;
  readonly first: number;
  readonly last: number;
}

/** The place of a value: its page, and its first byte there. */
export interface LifetimePlace {
  readonly page: number;
  readonly byteOffset: number;
}

/** The places of values, and the lengths of their pages. */
export interface PlacedLifetimes {
  /** The place of each value, by the value's id. */
  readonly places: ReadonlyMap<number, LifetimePlace>;
  /** The length of each page. */
  readonly pageBytes: readonly number[];
}

/** Options of `placeLifetimes`. */
export interface PlaceLifetimesOptions {
  /** Values begin at multiples of this number. */
  readonly alignmentBytes: number;
  /** No page is longer, unless it contains only one value. Default: there is one page. */
  readonly mostPageBytes?: number;
}

interface Placed extends LifetimePlace {
  readonly id: number;
  readonly first: number;
  readonly last: number;
  readonly end: number;
}

/**
 * Places values in memory so that values with overlapping lifetimes do not overlap: the largest first, each in
 * the lowest gap.
 */
export function placeLifetimes(
  lifetimes: readonly Lifetime[],
  { alignmentBytes, mostPageBytes = Infinity }: PlaceLifetimesOptions,
): PlacedLifetimes {
  const pages: Placed[][] = [];
  for (const lifetime of lifetimes.toSorted((a, b) => b.byteLength - a.byteLength)) {
    const { id, first, last } = lifetime;
    const byteLength = Math.ceil(lifetime.byteLength / alignmentBytes) * alignmentBytes;
    for (let page = 0; ; page++) {
      const placed = (pages[page] ??= []);
      const byteOffset = lowestGap(lifetime, byteLength, placed);
      const end = byteOffset + byteLength;
      if (byteOffset > 0 && end > mostPageBytes) continue;
      placed.push({ id, first, last, page, byteOffset, end });
      break;
    }
  }
  return {
    places: new Map(pages.flat().map((place) => [place.id, place])),
    pageBytes: pages.map((placed) => placed.reduce((most, { end }) => Math.max(most, end), 0)),
  };
}

function lowestGap(
  { first, last }: Lifetime,
  byteLength: number,
  placed: readonly Placed[],
): number {
  const neighbours = placed
    .filter((other) => other.first <= last && first <= other.last)
    .toSorted((a, b) => a.byteOffset - b.byteOffset);
  let start = 0;
  for (const other of neighbours) {
    if (start + byteLength <= other.byteOffset) break;
    start = Math.max(start, other.end);
  }
  return start;
}
