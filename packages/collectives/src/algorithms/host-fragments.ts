import { dtypes, type DType } from '@shardwise/core/spec';
import { PIPELINE_BYTES, fragmentsOf, slicesOf } from './fragments.ts';
import type { HostFragment } from './reduce-through-hosts.ts';

/** Fragments of a buffer that all ranks reduce: the ranks of a host share them evenly. */
export function sharedFragments(
  buffer: Uint8Array,
  dtype: DType,
  hosts: readonly (readonly number[])[],
): readonly HostFragment[] {
  const lanes = Math.min(...hosts.map((ranks) => ranks.length));
  const slices = slicesOf(buffer, lanes, dtypes[dtype].bytes);
  return inTurns(
    slices.map((slice, lane) => {
      const owners = hosts.map((ranks) => ranks[lane] ?? 0);
      return fragmentsOf(slice, PIPELINE_BYTES).map((bytes) => ({ bytes, owners }));
    }),
  );
}

/** Of the values of one rank. */
export interface RankFragment extends HostFragment {
  /** Whose values they are. */
  readonly rank: number;
  /** Within them, in fragments. */
  readonly index: number;
}

/** Fragments of the parts of all ranks: on other hosts, part r belongs to the rank that has r's place. */
export function rankFragments(
  parts: readonly Uint8Array[],
  hosts: readonly (readonly number[])[],
): readonly RankFragment[] {
  return inTurns(
    parts.map((part, rank) => {
      const place = hosts.find((ranks) => ranks.includes(rank))?.indexOf(rank) ?? 0;
      const owners = hosts.map((ranks) => ranks[place % ranks.length] ?? 0);
      return fragmentsOf(part, PIPELINE_BYTES).map((bytes, index) => ({
        bytes,
        owners,
        rank,
        index,
      }));
    }),
  );
}

/** The first of each list, then the second of each, … so that all owners have work. */
function inTurns<Item>(lists: readonly (readonly Item[])[]): readonly Item[] {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, place) =>
    lists.flatMap((list) => list.slice(place, place + 1)),
  ).flat();
}
