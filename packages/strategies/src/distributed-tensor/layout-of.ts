import type { Layout } from '@shardwise/core/extend';

/** The axes that shard a dim, outermost first; null for none. */
export type DimAxes = string | readonly string[] | null;

/**
 * A layout, dim by dim: `layoutOf(['dp', null])` shards dim 0 of two over dp and repeats the rest of
 * the mesh, `layoutOf([['dp', 'tp']])` shards a vector over dp and each part of it over tp.
 */
export function layoutOf(dims: readonly DimAxes[], partial: readonly string[] = []): Layout {
  return { dims: dims.map(axesOf), partial };
}

function axesOf(axes: DimAxes): readonly string[] {
  if (axes === null) return [];
  return typeof axes === 'string' ? [axes] : axes;
}
