/** Memory that is needed during some steps. */
export interface Living {
  readonly byteLength: number;
  /** The steps of the draft with the first write and the last read. */
  readonly from: number;
  readonly to: number;
}

/** Memory that is shared by values whose lives do not overlap. */
export interface Space {
  /** The allocation of a result that keeps the memory after the run, or a buffer of the plan's scratch memory. */
  readonly memory: { readonly allocation: number } | { readonly buffer: number };
  readonly byteLength: number;
  /** The step that writes the result. Before this step, the memory serves as scratch memory. */
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
  /** The alignment of places in bytes. */
  readonly alignment: number;
  /** The most bytes of a buffer, unless it has only one block. */
  readonly bufferBytes: number;
  /** Called with the space of a block, and the byte at which the block begins there. */
  readonly put: (block: Block, space: Space, start: number) => void;
}

/**
 * Places the largest blocks first, each in the first gap between the blocks that live at the same time (greedy by
 * size: Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"). The memory of results
 * that are not written yet is tried first. In a training step this is the memory of gradients, which are written when
 * activations are no longer needed. Other blocks lie in buffers of scratch memory, whose lengths are returned.
 */
export function packScratch<Block extends Living>(
  blocks: readonly Block[],
  results: readonly Space[],
  { alignment, bufferBytes, put }: PackOptions<Block>,
): number[] {
  // The smallest space with room is taken, so that large ones are left for large blocks. Of spaces of equal size, the
  // one whose result is written last is tried first.
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
      // If this result is written before the block's last read, so are the other results of the same size.
      const isThere = space.until <= block.to;
      next = isThere ? (larger[at] ?? spaces.length) : at + 1;
      if (!isThere && take(block, byteLength, space) !== undefined) return true;
    }
    return false;
  };
  for (const block of blocks.toSorted((a, b) => b.byteLength - a.byteLength || a.from - b.from)) {
    // A block without elements needs an address, too.
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

/** For each space, the index of the first larger one. */
function firstLarger(spaces: readonly Space[]): readonly number[] {
  const found = spaces.map(() => spaces.length);
  for (let at = spaces.length - 2; at >= 0; at--) {
    const isSame = spaces[at]?.byteLength === spaces[at + 1]?.byteLength;
    found[at] = isSame ? (found[at + 1] ?? 0) : at + 1;
  }
  return found;
}

/** The index of the first space that has at least this many bytes. The spaces are sorted by size. */
function firstWithRoom(spaces: readonly Space[], byteLength: number): number {
  let [low, high] = [0, spaces.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spaces[middle]?.byteLength ?? 0) < byteLength) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The start of the first gap that is large enough between the guests that live at the same time. */
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
