import type { Layout } from '@shardwise/core/extend';

/**
 * Makes a layout from the axes that shard each dim, outermost first; null means none. `layoutOf(['dp', null])`
 * shards dim 0 of two dims over dp, and the ranks of other axes have the same. `layoutOf([['dp', 'tp']])`
 * shards a vector over dp, and each part of it over tp.
 */
export function layoutOf(
  dims: readonly (string | readonly string[] | null)[],
  partial: readonly string[] = [],
): Layout {
  return { dims: dims.map(axesOf), partial };
}

function axesOf(axes: string | readonly string[] | null): readonly string[] {
  if (axes === null) return [];
  return typeof axes === 'string' ? [axes] : axes;
}
