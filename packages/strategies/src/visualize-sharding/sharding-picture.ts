import type { DimRange } from '@shardwise/core/extend';

/** A part of a tensor, and the ranks of the mesh that hold it. */
export interface PicturedPart {
  readonly rows: DimRange;
  readonly columns: DimRange;
  readonly ranks: readonly number[];
}

/** Which ranks hold which elements of a tensor, shown as a matrix of two of its dims. */
export interface ShardingPicture {
  readonly title: string;
  /** The blocks, row by row. */
  readonly blocks: readonly PicturedPart[];
  /** The ranks that have no elements, because the dim is too short for them. */
  readonly idle: readonly number[];
  /** The name of the dim. Empty if there is none. */
  readonly rowDim: string;
  readonly columnDim: string;
  /** The number of elements along the dim. */
  readonly rowCount: number;
  readonly columnCount: number;
}

/** Returns the different ranges of blocks, in order. */
export function rangesOf(ranges: readonly DimRange[]): readonly DimRange[] {
  return [...new Map(ranges.map((range) => [range.start, range])).values()].sort(
    (a, b) => a.start - b.start,
  );
}

/** Writes the first and last element, such as `0-3`, or `4` if there is only one. */
export function formatRange({ start, stop }: DimRange): string {
  return stop - start === 1 ? String(start) : `${start}-${stop - 1}`;
}

/** Writes a list of ranks, such as `rank 2` or `ranks 0, 1`. */
export function formatRanks(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`;
}
