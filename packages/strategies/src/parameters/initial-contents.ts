import {
  type DType,
  fromBytes,
  type HostData,
  type InitialPart,
  type Layout,
  shardedAxes,
} from '@shardwise/core/extend';

/**
 * Returns the part of a parameter that was kept, if it is all that a layout gives this rank. Returns null if other axes
 * shard the parameter, too, because later steps of the plan do that.
 */
export function initialContents(
  { bytes, layout }: InitialPart,
  { dtype, layout: given }: { readonly dtype: DType; readonly layout: Layout },
): HostData | null {
  const known = shardedAxes(given);
  const isShared = shardedAxes(layout).some((axis) => !known.includes(axis));
  const isElsewhere = layout.only !== undefined && given.only === undefined;
  return isShared || isElsewhere ? null : fromBytes(bytes, dtype);
}
