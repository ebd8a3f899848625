/** Bytes that are needed for a time. */
export interface Living {
  readonly byteLength: number;
  /** Steps of the draft, from the first write to the last read. */
  readonly from: number;
  readonly to: number;
}

/** Memory that values whose lives do not meet share. */
export interface Space {
  /** The allocation of the result that keeps it, or a buffer of the plan's scratch memory. */
  readonly memory: { readonly allocation: number } | { readonly buffer: number };
  readonly byteLength: number;
  /** The step that writes the result; before it the memory serves as scratch. */
  readonly until: number;
  /** Values that lie in this memory at some time, sorted by where they begin. */
  readonly guests: Guest[];
}

interface Guest {
  readonly from: number;
  readonly to: number;
  readonly start: number;
  readonly end: number;
}

export interface PackOptions<Block> {
  /** Bytes. */
  readonly alignment: number;
  /** The most bytes of a buffer, unless it has one block alone. */
  readonly bufferBytes: number;
  /** Is told where a block begins. */
  readonly put: (block: Block, space: Space, start: number) => void;
}

/**
 * The largest blocks first, each in the first gap among those that live at its time (greedy by size:
 * Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"), and first in
 * the memory of results that are not there yet: that of gradients, which come when activations go.
 * What needs memory beside it lies in buffers of scratch memory; their lengths are returned.
 */
export function packScratch<Block extends Living>(
  blocks: readonly Block[],
  results: readonly Space[],
  { alignment, bufferBytes, put }: PackOptions<Block>,
): number[] {
  // The smallest that has room, so that large ones are left for large blocks; of equal ones the last to come.
  const spaces = results.toSorted((a, b) => a.byteLength - b.byteLength || b.until - a.until);
  const larger = firstLarger(spaces);
  const buffers: Space[] = [];
  const usedBytes: number[] = [];
  const take = (block: Block, byteLength: number, space: Space): number | undefined => {
    const start = startIn(space, block, byteLength);
    if (start + block.byteLength > space.byteLength) return undefined;
    addGuest(space, { from: block.from, to: block.to, start, end: start + byteLength });
    put(block, space, start);
    return start;
  };
  const takeResult = (block: Block, byteLength: number): boolean => {
    let next = spaces.length;
    for (let at = firstWithRoom(spaces, block.byteLength); at < spaces.length; at = next) {
      const space = spaces[at];
      if (space === undefined) return false;
      // Others of this size are there even earlier.
      const isThere = space.until <= block.to;
      next = isThere ? (larger[at] ?? spaces.length) : at + 1;
      if (!isThere && take(block, byteLength, space) !== undefined) return true;
    }
    return false;
  };
  for (const block of blocks.toSorted((a, b) => b.byteLength - a.byteLength || a.from - b.from)) {
    // What has no elements has an address all the same.
    const byteLength = align(Math.max(1, block.byteLength), alignment);
    if (takeResult(block, byteLength)) continue;
    for (let buffer = 0; ; buffer++) {
      const space = (buffers[buffer] ??= emptyBuffer(
        buffer,
        Math.max(bufferBytes, block.byteLength),
      ));
      const start = take(block, byteLength, space);
      if (start === undefined) continue;
      const end = start + byteLength;
      const used = end > bufferBytes ? start + block.byteLength : end;
      usedBytes[buffer] = Math.max(usedBytes[buffer] ?? 0, used);
      break;
    }
  }
  return usedBytes;
}

function emptyBuffer(buffer: number, byteLength: number): Space {
  return { memory: { buffer }, byteLength, until: Number.POSITIVE_INFINITY, guests: [] };
}

/** For each space the place of the first one that is larger. */
function firstLarger(spaces: readonly Space[]): readonly number[] {
  const found = spaces.map(() => spaces.length);
  for (let at = spaces.length - 2; at >= 0; at--) {
    const isSame = spaces[at]?.byteLength === spaces[at + 1]?.byteLength;
    found[at] = isSame ? (found[at + 1] ?? 0) : at + 1;
  }
  return found;
}

/** The place of the first of spaces, sorted by size, that has so many bytes. */
function firstWithRoom(spaces: readonly Space[], byteLength: number): number {
  let [low, high] = [0, spaces.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spaces[middle]?.byteLength ?? 0) < byteLength) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first gap that is large enough among those who are there at the same time. */
function startIn({ guests }: Space, { from, to }: Living, byteLength: number): number {
  let start = 0;
  for (const guest of guests) {
    if (guest.to < from || guest.from > to) continue;
    if (guest.start - start >= byteLength) break;
    start = Math.max(start, guest.end);
  }
  return start;
}

function addGuest({ guests }: Space, guest: Guest): void {
  let [low, high] = [0, guests.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((guests[middle]?.start ?? 0) <= guest.start) low = middle + 1;
    else high = middle;
  }
  guests.splice(low, 0, guest);
}

export function align(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
