import {
  type DType,
  fromBytes,
  type HostData,
  type InitialPart,
  type Layout,
  shardedAxes,
} from '@shardwise/core/extend';

/**
 * What was kept of a parameter, where it is all that a layout gives this rank; null where other axes share that out, too,
 * which later steps of the plan do.
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
