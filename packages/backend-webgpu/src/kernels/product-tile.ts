/** How a group of threads shares out a tile of a product. */
export interface ProductTile {
  /** The threads of a group along rows and columns of the result. */
  readonly threads: readonly [rows: number, columns: number];
  /** The elements that each thread makes along rows and columns. */
  readonly perThread: readonly [rows: number, columns: number];
  /**
   * How many terms have their operands in workgroup memory at a time. 0 if each thread reads its own operands, without
   * workgroup memory.
   */
  readonly depth: number;
}

/**
 * Needs no workgroup memory, and so no barriers. A processor that emulates a device has to switch between the threads
 * of a group at each barrier, and its driver takes seconds to compile a kernel with barriers.
 */
export const registersTile: ProductTile = { threads: [8, 8], perThread: [8, 8], depth: 0 };

/**
 * The tiles of which a device takes the fastest one. With each of them, an element is the sum of its terms in order, so
 * the bits do not depend on the choice. None needs more than any device has, which is 256 threads and 16 KiB of
 * workgroup memory.
 */
export const largeTiles: readonly [ProductTile, ...ProductTile[]] = [
  { threads: [16, 16], perThread: [4, 4], depth: 16 },
  registersTile,
  { threads: [8, 8], perThread: [8, 8], depth: 16 },
  { threads: [16, 16], perThread: [8, 8], depth: 8 },
  { threads: [8, 8], perThread: [4, 4], depth: 32 },
];

/**
 * Tiles for smaller results. `shared` is for devices whose large tile is in workgroup memory, and `unshared` for
 * others.
 */
const shared = {
  small: { threads: [16, 16], perThread: [1, 1], depth: 16 },
  middle: { threads: [16, 16], perThread: [2, 2], depth: 16 },
} as const;
const unshared = {
  small: { threads: [8, 8], perThread: [1, 1], depth: 0 },
  middle: { threads: [8, 8], perThread: [4, 4], depth: 0 },
} as const;

/** The tile for a result with this many rows and columns, on a device that takes `large` for large results. */
export function tileFor(rows: number, columns: number, large: ProductTile): ProductTile {
  const least = Math.min(rows, columns);
  if (least >= 48) return large;
  const { small, middle } = large.depth === 0 ? unshared : shared;
  return least >= 24 ? middle : small;
}
