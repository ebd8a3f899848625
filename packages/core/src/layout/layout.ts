import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';

/** A layout by which all ranks have the whole tensor. */
export function replicated(shape: Shape): Layout {
  return { dims: shape.map(() => []), partial: [] };
}

/** The axes whose ranks have different parts of the tensor, in the order in which they shard it. */
export function shardedAxes({ dims, flat = [] }: Layout): readonly string[] {
  return [...dims.flat(), ...flat];
}

/** All axes that a layout names. */
export function axesOfLayout(layout: Layout): readonly string[] {
  const { partial, replicate = [], varying = [], only } = layout;
  const alone = only === undefined ? [] : [only.axis];
  return [...shardedAxes(layout), ...partial, ...replicate, ...varying, ...alone];
}

/** The same layout, except that these axes do not shard the tensor. */
export function unsharded(layout: Layout, axes: readonly string[]): Layout {
  const kept = (list: readonly string[]): readonly string[] =>
    list.filter((axis) => !axes.includes(axis));
  const { dims, flat } = layout;
  return { ...layout, dims: dims.map(kept), ...(flat && { flat: kept(flat) }) };
}

/** The layout of a tensor to which `outer` is applied first, and then `inner` to what each rank has. */
export function joinLayouts(outer: Layout, inner: Layout): Layout {
  const count = Math.max(outer.dims.length, inner.dims.length);
  const joined = (key: 'flat' | 'partial' | 'replicate' | 'varying'): readonly string[] =>
    [outer, inner].flatMap((layout) => layout[key] ?? []);
  const [flat, replicate, varying] = [joined('flat'), joined('replicate'), joined('varying')];
  const sections = { ...outer.sections, ...inner.sections };
  const chunkSizes = { ...outer.chunkSizes, ...inner.chunkSizes };
  const only = outer.only ?? inner.only;
  return {
    dims: Array.from({ length: count }, (_, dim) =>
      [outer, inner].flatMap(({ dims }) => dims[dim] ?? []),
    ),
    partial: joined('partial'),
    ...(Object.keys(sections).length === 0 ? {} : { sections }),
    ...(Object.keys(chunkSizes).length === 0 ? {} : { chunkSizes }),
    ...(flat.length === 0 ? {} : { flat }),
    ...(replicate.length === 0 ? {} : { replicate }),
    ...(varying.length === 0 ? {} : { varying }),
    ...(only === undefined ? {} : { only }),
  };
}

/**
 * A layout as text: `replicate` if nothing differs between ranks, `shard(0: dp)`, `shard(0: dp by 5)` for
 * chunks of 5, `shard(flat: dp)`, `varying(dp)`, `only(dp: 0)`, `partial(dp)`.
 */
export function formatLayout(layout: Layout): string {
  const list = (name: string, axes: readonly string[]): string[] =>
    axes.length === 0 ? [] : [`${name}${axes.join('·')})`];
  const { dims, flat = [], varying = [], replicate = [], only, partial, chunkSizes } = layout;
  const inChunks = (axes: readonly string[]): string[] =>
    axes.map((axis) => {
      const size = chunkSizes?.[axis];
      return size === undefined ? axis : `${axis} by ${size}`;
    });
  const parts = [
    ...dims.flatMap((axes, dim) => list(`shard(${dim}: `, inChunks(axes))),
    ...list('shard(flat: ', inChunks(flat)),
    ...list('varying(', varying),
    ...(only === undefined ? [] : [`only(${only.axis}: ${only.rank})`]),
    ...list('partial(', partial),
    ...list('replicate(', replicate),
  ];
  return parts.join(' ') || 'replicate';
}
