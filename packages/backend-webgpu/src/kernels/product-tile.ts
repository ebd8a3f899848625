/** How a group of threads shares out a tile of a product. */
export interface ProductTile {
  /**
   * The threads of a group along rows and columns of the result. With workgroup memory, they are multiples of 4 and of
   * 8.
   */
  readonly threads: readonly [rows: number, columns: number];
  /** The elements that each thread makes along rows and columns. */
  readonly perThread: readonly [rows: number, columns: number];
  /**
   * How many terms have their operands in workgroup memory at a time. 0 if each thread reads its own operands, without
   * workgroup memory.
   */
  readonly depth: number;
}

/** How fast a device is with a tile. Only ratios count, so times have any unit. */
export interface RatedTile {
  readonly tile: ProductTile;
  /** The time that a group takes for a term if the device has few others. */
  readonly alone: number;
  /** The time that each further group takes for a term if the device has many of them. */
  readonly each: number;
}

/**
 * The tiles whose speed is measured on a device. With each of them, an element is the sum of its terms in order, so
 * bits do not depend on the choice. None needs more than any device has, which is 256 threads and 16 KiB of workgroup
 * memory. The rates are those of an H100, until they are measured.
 */
export const deviceTiles: readonly [RatedTile, ...RatedTile[]] = [
  { tile: { threads: [16, 16], perThread: [8, 8], depth: 16 }, alone: 110, each: 1 },
  { tile: { threads: [8, 8], perThread: [4, 4], depth: 32 }, alone: 25, each: 0.1 },
  { tile: { threads: [8, 8], perThread: [8, 8], depth: 16 }, alone: 60, each: 0.28 },
  { tile: { threads: [16, 16], perThread: [1, 1], depth: 32 }, alone: 20, each: 0.08 },
  { tile: { threads: [8, 8], perThread: [8, 8], depth: 0 }, alone: 200, each: 0.5 },
];

/**
 * The tiles for a processor that emulates a device. They need no workgroup memory, and so no barriers. Such a device
 * has to switch between the threads of a group at each barrier, and its driver takes seconds to compile a kernel with
 * barriers.
 */
export const processorTiles: readonly [RatedTile, ...RatedTile[]] = [
  { tile: { threads: [8, 8], perThread: [8, 8], depth: 0 }, alone: 0, each: 64 },
  { tile: { threads: [8, 8], perThread: [4, 4], depth: 0 }, alone: 0, each: 24 },
  { tile: { threads: [8, 8], perThread: [1, 1], depth: 0 }, alone: 0, each: 5 },
];

/** The size of a result. */
export interface ResultSize {
  readonly matrices: number;
  readonly rows: number;
  readonly columns: number;
}

/** The rows and columns of a tile. */
export function sidesOf({ threads, perThread }: ProductTile): readonly [number, number] {
  return [threads[0] * perThread[0], threads[1] * perThread[1]];
}

/** The number of groups that make a result. */
export function groupsOf(tile: ProductTile, { matrices, rows, columns }: ResultSize): number {
  const [tall, wide] = sidesOf(tile);
  return matrices * Math.ceil(rows / tall) * Math.ceil(columns / wide);
}

/** The tile with which a result is made in the least time. */
export function tileFor(
  size: ResultSize,
  tiles: readonly [RatedTile, ...RatedTile[]],
): ProductTile {
  const timeOf = ({ tile, alone, each }: RatedTile): number =>
    Math.max(alone, each * groupsOf(tile, size));
  return tiles.reduce((best, tile) => (timeOf(tile) < timeOf(best) ? tile : best)).tile;
}
