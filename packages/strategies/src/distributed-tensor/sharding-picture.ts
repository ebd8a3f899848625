import type { DimRange } from '@shardwise/core/extend';

/** A part of a tensor, and the ranks of the mesh that hold it. */
export interface PicturedPart {
  readonly rows: DimRange;
  readonly columns: DimRange;
  readonly ranks: readonly number[];
}

/** Which ranks hold what of a tensor, seen as a matrix of two of its dims. */
export interface ShardingPicture {
  readonly title: string;
  /** The blocks, row by row. */
  readonly blocks: readonly PicturedPart[];
  /** Ranks that have no elements, as the dim is too short for them. */
  readonly idle: readonly number[];
  /** Empty where there is none. */
  readonly rowDim: string;
  readonly columnDim: string;
  /** Elements. */
  readonly rowCount: number;
  readonly columnCount: number;
}

/** The different ranges of blocks, in order. */
export function rangesOf(ranges: readonly DimRange[]): readonly DimRange[] {
  return [...new Map(ranges.map((range) => [range.start, range])).values()].sort(
    (a, b) => a.start - b.start,
  );
}

/** The first and last element: `0-3`, or `4` where they are one. */
export function formatRange({ start, stop }: DimRange): string {
  return stop - start === 1 ? String(start) : `${start}-${stop - 1}`;
}

/** `rank 2`, `ranks 0, 1`. */
export function formatRanks(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`;
}
