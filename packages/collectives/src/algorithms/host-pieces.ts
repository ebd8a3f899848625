import { dtypes, type DType } from '@shardwise/core/spec';
import type { HostPiece } from './reduce-through-hosts.ts';
import { PIPELINE_BYTES, segmentsOf, slicesOf } from './segments.ts';

/** Pieces of a buffer that all ranks reduce: the ranks of a host share them evenly. */
export function sharedPieces(
  buffer: Uint8Array,
  dtype: DType,
  hosts: readonly (readonly number[])[],
): readonly HostPiece[] {
  const lanes = Math.min(...hosts.map((ranks) => ranks.length));
  const slices = slicesOf(buffer, lanes, dtypes[dtype].bytes);
  return inTurns(
    slices.map((slice, lane) => {
      const owners = hosts.map((ranks) => ranks[lane] ?? 0);
      return segmentsOf(slice, PIPELINE_BYTES).map((bytes) => ({ bytes, owners }));
    }),
  );
}

/** Of the values of one rank. */
export interface RankPiece extends HostPiece {
  /** Whose values they are. */
  readonly rank: number;
  /** Within them, in segments. */
  readonly segment: number;
}

/** Pieces of the parts of all ranks: on other hosts, part r belongs to the rank that has r's place. */
export function rankPieces(
  parts: readonly Uint8Array[],
  hosts: readonly (readonly number[])[],
): readonly RankPiece[] {
  return inTurns(
    parts.map((part, rank) => {
      const place = hosts.find((ranks) => ranks.includes(rank))?.indexOf(rank) ?? 0;
      const owners = hosts.map((ranks) => ranks[place % ranks.length] ?? 0);
      return segmentsOf(part, PIPELINE_BYTES).map((bytes, segment) => ({
        bytes,
        owners,
        rank,
        segment,
      }));
    }),
  );
}

/** The first of each list, then the second of each, … so that all owners have work. */
function inTurns<Piece>(lists: readonly (readonly Piece[])[]): readonly Piece[] {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, index) =>
    lists.flatMap((list) => list.slice(index, index + 1)),
  ).flat();
}
