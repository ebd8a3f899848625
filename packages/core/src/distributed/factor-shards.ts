import { elementCount } from '../base/shape.ts';
import type { DimFactor } from '../graph/op-dims.ts';
import type { Layout } from '../spec/layout.ts';
import type { MeshAxis } from '../spec/mesh.ts';
import { axisSize } from './axis-size.ts';

/** How the ranks share the indices of a factor of a dim. */
export interface FactorShard {
  /** The axes that shard the factor, outermost first. */
  readonly axes: readonly string[];
  /** The number of indices of a rank, if it is not ceil(size / ranks) over each axis. */
  readonly chunk?: number;
  /** The sections of each axis, for a dim that consists of this factor alone. */
  readonly sections?: Readonly<Record<string, readonly number[]>>;
}

/** By name, the factors that axes shard. */
export type FactorShards = ReadonlyMap<string, FactorShard>;

/** The keys of a layout that say how its dims are sharded. */
export type DimsLayout = Pick<Layout, 'dims' | 'sections' | 'chunkSizes'>;

/**
 * The factors of a dim that axes shard. An axis without sections shards the outermost factor that the axes before it
 * leave, and an axis with n equal sections the factor inside of those whose sizes are n together. Null if the parts of
 * the ranks end within an index of a factor.
 */
export function shardsOfDim(
  factors: readonly DimFactor[],
  own: readonly string[],
  layout: DimsLayout,
  mesh: readonly MeshAxis[],
): FactorShards | null {
  const [only] = factors;
  if (only !== undefined && factors.length === 1) return new Map([[only.name, alone(own, layout)]]);
  const shards = new Map<string, FactorShard>();
  const left = factors.map(({ size }) => size);
  let at = 0;
  for (const axis of own) {
    const count = layout.sections?.[axis]?.length ?? 1;
    while (at < left.length - 1 && elementCount(left.slice(0, at + 1)) <= count) at++;
    const [factor, size] = [factors[at], left[at]];
    if (factor === undefined || size === undefined) return null;
    if (elementCount(left.slice(0, at)) !== count) return null;
    const ranks = axisSize(mesh, axis);
    const inner = elementCount(left.slice(at + 1));
    const given = layout.chunkSizes?.[axis];
    if (given !== undefined || size % ranks !== 0) {
      const chunk = (given ?? Math.ceil((size * inner) / ranks)) / inner;
      if (own.length > 1 || at > 0 || !Number.isInteger(chunk)) return null;
      return new Map([[factor.name, { axes: own, chunk }]]);
    }
    left[at] = size / ranks;
    shards.set(factor.name, { axes: [...(shards.get(factor.name)?.axes ?? []), axis] });
  }
  return shards;
}

function alone(
  own: readonly string[],
  { sections = {}, chunkSizes = {} }: DimsLayout,
): FactorShard {
  const [axis = ''] = own;
  const chunk = own.length === 1 ? chunkSizes[axis] : undefined;
  const kept = own.flatMap((each) => {
    const sizes = sections[each];
    return sizes === undefined ? [] : [[each, sizes] as const];
  });
  return {
    axes: own,
    ...(chunk === undefined ? {} : { chunk }),
    ...(kept.length === 0 ? {} : { sections: Object.fromEntries(kept) }),
  };
}

/** The layout of dims of these factors. Null if the parts of the ranks would end within an index of a factor. */
export function layoutOfDims(
  dims: readonly (readonly DimFactor[])[],
  shards: FactorShards,
  mesh: readonly MeshAxis[],
): DimsLayout | null {
  const sections: Record<string, readonly number[]> = {};
  const chunkSizes: Record<string, number> = {};
  const axes: (readonly string[])[] = [];
  for (const factors of dims) {
    const own: string[] = [];
    /** The number of indices of the factors before, and whether it is the same on all ranks. */
    let [outer, isEven] = [1, true];
    for (const [at, { name, size }] of factors.entries()) {
      const shard = shards.get(name);
      const inner = factors.slice(at + 1).reduce((product, factor) => product * factor.size, 1);
      let left = size;
      if (shard?.sections !== undefined) {
        if (factors.length > 1) return null;
        Object.assign(sections, shard.sections);
      }
      for (const axis of shard?.axes ?? []) {
        if (!isEven) return null;
        const ranks = axisSize(mesh, axis);
        const chunk = shard?.chunk ?? Math.ceil(left / ranks);
        const isUneven = chunk * ranks !== left;
        if (isUneven && factors.length > 1 && (outer > 1 || own.length > 0)) return null;
        if (chunk * inner !== Math.ceil((left * inner) / ranks)) chunkSizes[axis] = chunk * inner;
        if (outer > 1) sections[axis] = Array.from({ length: outer }, () => left * inner);
        own.push(axis);
        isEven = !isUneven || factors.length === 1;
        left = chunk;
      }
      outer *= left;
    }
    axes.push(own);
  }
  return {
    dims: axes,
    ...(Object.keys(sections).length === 0 ? {} : { sections }),
    ...(Object.keys(chunkSizes).length === 0 ? {} : { chunkSizes }),
  };
}
