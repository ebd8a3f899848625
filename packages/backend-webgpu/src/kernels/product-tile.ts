/** How a group of threads shares out a tile of a product. */
export interface ProductTile {
  /** Threads of a group along rows and columns of the result. */
  readonly threads: readonly [rows: number, columns: number];
  /** Elements that each makes along both. */
  readonly perThread: readonly [rows: number, columns: number];
  /** Terms whose operands are in workgroup memory at a time. 0 if each thread reads its own operands, without workgroup memory. */
  readonly depth: number;
}

/**
 * Needs no workgroup memory, so it has no barriers. A processor that computes as a device has to change between the threads of a group at
 * each barrier, and its driver takes seconds to compile a kernel that does.
 */
export const registersTile: ProductTile = { threads: [8, 8], perThread: [8, 8], depth: 0 };

/**
 * Those of which a device takes the one that it is fastest with. An element is the sum of its terms in their order with each of them,
 * so that bits do not depend on the choice. None needs more than any device has: 256 threads, and 16 KiB of workgroup memory.
 */
export const largeTiles: readonly [ProductTile, ...ProductTile[]] = [
  { threads: [16, 16], perThread: [4, 4], depth: 16 },
  registersTile,
  { threads: [8, 8], perThread: [8, 8], depth: 16 },
  { threads: [16, 16], perThread: [8, 8], depth: 8 },
  { threads: [8, 8], perThread: [4, 4], depth: 32 },
];

/** Those of smaller results, for devices whose large tiles are in workgroup memory, and for others. */
const shared = {
  small: { threads: [16, 16], perThread: [1, 1], depth: 16 },
  middle: { threads: [16, 16], perThread: [2, 2], depth: 16 },
} as const;
const unshared = {
  small: { threads: [8, 8], perThread: [1, 1], depth: 0 },
  middle: { threads: [8, 8], perThread: [4, 4], depth: 0 },
} as const;

/** The tile for a result of so many rows and columns, on a device that takes `large` for large ones. */
export function tileFor(rows: number, columns: number, large: ProductTile): ProductTile {
  const least = Math.min(rows, columns);
  if (least >= 48) return large;
  const { small, middle } = large.depth === 0 ? unshared : shared;
  return least >= 24 ? middle : small;
}
