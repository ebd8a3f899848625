import { dtypes, type DType } from '@shardwise/core/spec';
import { PIPELINE_BYTES, fragmentsOf, slicesOf } from './fragments.ts';
import type { HostFragment } from './reduce-through-hosts.ts';

/** The fragments of a buffer that all ranks reduce. The ranks of each host share out the fragments evenly. */
export function sharedFragments(
  buffer: Uint8Array,
  dtype: DType,
  hosts: readonly (readonly number[])[],
): readonly HostFragment[] {
  const sharers = Math.min(...hosts.map((ranks) => ranks.length));
  const slices = slicesOf(buffer, sharers, dtypes[dtype].bytes);
  return inTurns(
    slices.map((slice, place) => {
      const owners = hosts.map((ranks) => ranks[place] ?? 0);
      return fragmentsOf(slice, PIPELINE_BYTES).map((bytes) => ({ bytes, owners }));
    }),
  );
}

/** A fragment of the part of one rank. */
export interface RankFragment extends HostFragment {
  /** The rank whose part it is. */
  readonly rank: number;
  /** The place of the fragment among those of the part. */
  readonly index: number;
}

/**
 * The fragments of the parts of all ranks. On each host, part r is added by the rank whose place on that host is the
 * place of rank r on its own host.
 */
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

/**
 * Takes the first item of each list, then the second of each, and so on, so that all owners have work from the
 * start.
 */
function inTurns<Item>(lists: readonly (readonly Item[])[]): readonly Item[] {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, place) =>
    lists.flatMap((list) => list.slice(place, place + 1)),
  ).flat();
}
