import type { OptionRule } from '../base/option-rules.ts';
import { formatLayout } from '../layout/layout.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';

/** The layout of a tensor on the ranks of one axis: the part of a Layout that concerns this axis. */
export type AxisLayout =
  /** The value is the same on all ranks, and so is its gradient, as between two parallel regions. */
  | 'invariant'
  /** The value is the same on all ranks, and each uses its copy in its own way. Its gradient is partial. */
  | 'replicate'
  /** The tensor is the sum of the ranks' values. */
  | 'partial'
  | Sharding;

/** How an axis shards a tensor: along a dim, or `flat`, element by element in row-major order. */
export type Sharding = DimSharding | 'flat';

/** Each rank has one part along the dim. Negative dims count from the end. */
export interface DimSharding {
  readonly shard: number;
  /** Sizes of sections of the dim, each of which is sharded by itself. Default: one section. */
  readonly sections?: readonly number[];
}

/** Each rank has one part along `dim`. Negative dims count from the end. */
export function shard(dim: number): ActivationSharding {
  return { shard: dim };
}

/** How an axis shards an activation: along a dim, in one section. */
export interface ActivationSharding extends DimSharding {
  readonly sections?: never;
}

/** The layout of an activation on the ranks of one axis. */
export type ActivationLayout = Exclude<AxisLayout, Sharding> | ActivationSharding;

/** The rule for an option that is the layout of an activation. */
export const activationRule: OptionRule<ActivationLayout> = {
  fits: (value): value is ActivationLayout => value === 'partial' || unsummedRule.fits(value),
  expected: "'invariant', 'replicate', 'partial' or shard(dim)",
};

/** The rule for an option that is the layout of an activation, but not a partial sum. */
export const unsummedRule: OptionRule<Exclude<ActivationLayout, 'partial'>> = {
  fits: (value): value is Exclude<ActivationLayout, 'partial'> =>
    value === 'invariant' || value === 'replicate' || isShard(value),
  expected: "'invariant', 'replicate' or shard(dim)",
};

function isShard(value: unknown): value is ActivationSharding {
  return (
    typeof value === 'object' &&
    value !== null &&
    'shard' in value &&
    Number.isSafeInteger(value.shard) &&
    !('sections' in value)
  );
}

export function isSharding(layout: AxisLayout): layout is Sharding {
  return layout === 'flat' || typeof layout !== 'string';
}

/** Returns the layout, which must be a sharding. */
export function requireSharding(layout: AxisLayout): Sharding {
  if (isSharding(layout)) return layout;
  throw new RangeError(`${layout} is no sharding`);
}

export function formatAxisLayout(layout: AxisLayout): string {
  return typeof layout === 'string' ? layout : `shard(${layout.shard})`;
}

/**
 * Returns how a tensor of a layout lies on the ranks of an axis. Throws LayoutError for chunks of a given size, because
 * only equal parts, the last ones padded, can be cut, gathered and reduced.
 */
export function axisLayoutOf(layout: Layout, axis: string): AxisLayout {
  const { dims, partial, sections, flat = [], replicate = [], chunkSizes } = layout;
  const chunk = chunkSizes?.[axis];
  if (chunk !== undefined) throw chunkError(layout, axis, chunk);
  const dim = dims.findIndex((axes) => axes.includes(axis));
  if (dim >= 0) {
    const own = sections?.[axis];
    return own === undefined ? { shard: dim } : { shard: dim, sections: own };
  }
  if (flat.includes(axis)) return 'flat';
  if (partial.includes(axis)) return 'partial';
  return replicate.includes(axis) ? 'replicate' : 'invariant';
}

function chunkError(layout: Layout, axis: string, chunk: number): LayoutError {
  return new LayoutError(
    {
      asked: `parts of a tensor as ${formatLayout(layout)} over the axis '${axis}'`,
      found: `chunks of ${chunk}`,
      todo: 'Leave chunkSizes out',
    },
    { layout, axis },
  );
}

/** Returns the layout of a tensor of `ndim` dims that only one axis lays out. */
export function layoutOver(axis: string, own: AxisLayout, ndim: number): Layout {
  const dims = Array.from({ length: ndim }, (): readonly string[] => []);
  if (own === 'invariant') return { dims, partial: [] };
  if (own === 'replicate') return { dims, partial: [], replicate: [axis] };
  if (own === 'partial') return { dims, partial: [axis] };
  if (own === 'flat') return { dims, partial: [], flat: [axis] };
  const sharded = {
    dims: dims.with(own.shard < 0 ? own.shard + ndim : own.shard, [axis]),
    partial: [],
  };
  return own.sections === undefined ? sharded : { ...sharded, sections: { [axis]: own.sections } };
}

export function sameAxisLayout(a: AxisLayout, b: AxisLayout): boolean {
  if (typeof a === 'string' || typeof b === 'string') return a === b;
  return a.shard === b.shard && a.sections?.join() === b.sections?.join();
}
