import { elementCount } from '../base/shape.ts';
import { localShape, type PlaceOf } from '../layout/chunks.ts';
import { unsharded } from '../layout/layout.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import { type AxisLayout, axisLayoutOf, requireSharding } from './axis-layout.ts';
import { paddedShape, partDim } from './part-shapes.ts';
import { moveOver } from './moves.ts';
import type { RedistributionStep } from './redistribution.ts';

export interface MoveContext {
  readonly shape: Shape;
  /** The place of the rank that has the most of every tensor. */
  readonly placeOf: PlaceOf;
  readonly elementBytes: number;
  /** The axes that may be moved, in the order of the mesh. */
  readonly moving: readonly string[];
  /** The layout to reach. An axis that shards nothing is only moved to its place in the goal. */
  readonly goal: Layout;
}

/** Returns all moves that are possible from a layout. Axes that shard are added and removed at the inner end. */
export function movesFrom(layout: Layout, context: MoveContext): readonly RedistributionStep[] {
  const { moving, goal } = context;
  const { flat = [], replicate = [] } = layout;
  const innermost =
    flat.length > 0 ? flat.slice(-1) : layout.dims.flatMap((axes) => axes.slice(-1));
  const shards = new Set([...layout.dims.flat(), ...flat]);
  const others = [
    ...layout.partial,
    ...moving.filter((axis) => !shards.has(axis) && !layout.partial.includes(axis)),
  ];
  return [...innermost, ...others]
    .filter((axis) => moving.includes(axis))
    .flatMap((axis) => {
      const from = axisLayoutOf(layout, axis);
      const isKnown = shards.has(axis) || layout.partial.includes(axis);
      const targets = isKnown
        ? everywhere(layout, axis, goal)
        : [axisLayoutOf(goal, axis)].filter((to) => to !== 'invariant' || replicate.includes(axis));
      return targets
        .filter((to) => isPossible(layout, from, to, goal))
        .map((to) => stepTo(layout, axis, from, to, context));
    });
}

/** Returns the layouts that an axis may have next: the same on all ranks, or sharded along any dim. */
function everywhere(layout: Layout, axis: string, goal: Layout): readonly AxisLayout[] {
  const wanted = axisLayoutOf(goal, axis);
  const dims = layout.dims.map((_, dim): AxisLayout => {
    return typeof wanted !== 'string' && wanted.shard === dim ? wanted : { shard: dim };
  });
  return [
    wanted === 'replicate' ? 'replicate' : 'invariant',
    ...dims,
    ...(wanted === 'flat' ? [wanted] : []),
  ];
}

function isPossible(layout: Layout, from: AxisLayout, to: AxisLayout, goal: Layout): boolean {
  const { flat = [] } = layout;
  if (typeof to !== 'string') {
    // A tensor that is sharded flat has no dims to shard.
    if (flat.length > 0 || from === 'flat') return false;
    return typeof from === 'string' || from.shard !== to.shard;
  }
  if (to !== 'flat') return true;
  const isNext = JSON.stringify(goal.flat?.slice(0, flat.length)) === JSON.stringify(flat);
  return typeof from === 'string' && from !== 'flat' && isNext && sameDims(layout, goal);
}

function sameDims(a: Layout, b: Layout): boolean {
  return JSON.stringify(a.dims) === JSON.stringify(b.dims);
}

function stepTo(
  layout: Layout,
  axis: string,
  from: AxisLayout,
  to: AxisLayout,
  context: MoveContext,
): RedistributionStep {
  const move = moveOver(axis, from, to);
  if (move === null) throw new RangeError(`'${axis}' does not move`);
  const { size: parts } = context.placeOf(axis);
  const without = lifted(layout, axis);
  const { shape, placeOf, elementBytes } = context;
  const whole = localShape(shape, without, placeOf);
  const bytesOf = (elements: number): number => elements * elementBytes;
  const received = (elements: number): number => (bytesOf(elements) / parts) * (parts - 1);
  const bytes = (): number => {
    switch (move.operation) {
      case 'allGather':
        return received(elementCount(paddedShape(whole, requireSharding(from), parts)));
      case 'reduceScatter':
        return received(elementCount(paddedShape(whole, requireSharding(to), parts)));
      case 'allReduce':
        return 2 * received(elementCount(whole));
      case 'allToAll': {
        // The exchanged block is padded along both dims.
        const [dim, toDim] = [partDim(requireSharding(from)), partDim(requireSharding(to))];
        const block = whole.map((size, at) =>
          at === dim || at === toDim ? Math.ceil(size / parts) : size,
        );
        return bytesOf(elementCount(block)) * (parts - 1);
      }
      case 'slice':
      case 'keepOnFirst':
      case 'reinterpret':
        return 0;
      default:
        return move.operation satisfies never;
    }
  };
  return { move, layout: placed(without, axis, to), bytes: bytes() };
}

/** Returns the layout without an axis. */
function lifted(layout: Layout, axis: string): Layout {
  const { sections, partial, replicate, ...rest } = unsharded(layout, [axis]);
  const others = Object.entries(sections ?? {}).filter(([name]) => name !== axis);
  const alike = replicate?.filter((name) => name !== axis) ?? [];
  return {
    ...rest,
    partial: partial.filter((name) => name !== axis),
    ...(others.length === 0 ? {} : { sections: Object.fromEntries(others) }),
    ...(alike.length === 0 ? {} : { replicate: alike }),
  };
}

/** Returns the layout with an axis added at the inner end. */
function placed(layout: Layout, axis: string, to: AxisLayout): Layout {
  if (to === 'invariant') return layout;
  if (to === 'partial') return { ...layout, partial: [...layout.partial, axis] };
  if (to === 'replicate') return { ...layout, replicate: [...(layout.replicate ?? []), axis] };
  if (to === 'flat') return { ...layout, flat: [...(layout.flat ?? []), axis] };
  const { shard, sections } = to;
  const dims = layout.dims.with(shard, [...(layout.dims[shard] ?? []), axis]);
  if (sections === undefined) return { ...layout, dims };
  return { ...layout, dims, sections: { ...layout.sections, [axis]: sections } };
}
