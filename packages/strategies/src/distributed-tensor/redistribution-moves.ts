import { elementCount, type Layout, type MeshAxis, type Shape } from '@shardwise/core/extend';
import type { RedistributionStep } from './redistribution.ts';
import { axisSize, firstPlace, localShape } from './shard-range.ts';

export interface MoveContext {
  readonly shape: Shape;
  readonly axes: readonly MeshAxis[];
  readonly elementBytes: number;
  /** Axes that may be moved. */
  readonly moving: ReadonlySet<string>;
  /** Where the way ends: an axis that is nowhere goes only where it is wanted. */
  readonly goal: Layout;
}

/** All moves that are possible from a layout. A dim's axes come and go at the inner end. */
export function movesFrom(layout: Layout, context: MoveContext): readonly RedistributionStep[] {
  const { axes, moving } = context;
  const used = new Set([...layout.dims.flat(), ...layout.partial]);
  const idle = axes.filter(({ name }) => moving.has(name) && !used.has(name));
  return [
    ...layout.dims.flatMap((_, dim) => movesOfShard(layout, dim, context)),
    ...layout.partial
      .filter((axis) => moving.has(axis))
      .flatMap((axis) => movesOfPartial(layout, axis, context)),
    ...idle.flatMap(({ name }) => movesOfReplicate(layout, name, context.goal)),
  ];
}

function movesOfReplicate(
  layout: Layout,
  axis: string,
  goal: Layout,
): readonly RedistributionStep[] {
  const slices = goal.dims.flatMap((wanted, dim): RedistributionStep[] =>
    wanted.includes(axis)
      ? [{ move: { operation: 'slice', axis, dim }, layout: withAxis(layout, dim, axis), bytes: 0 }]
      : [],
  );
  if (!goal.partial.includes(axis)) return slices;
  const after = { dims: layout.dims, partial: [...layout.partial, axis] };
  return [...slices, { move: { operation: 'keepOnFirst', axis }, layout: after, bytes: 0 }];
}

function movesOfShard(
  layout: Layout,
  dim: number,
  context: MoveContext,
): readonly RedistributionStep[] {
  const axis = layout.dims[dim]?.at(-1);
  if (axis === undefined || !context.moving.has(axis)) return [];
  const without = withoutAxis(layout, dim);
  const parts = axisSize(context.axes, axis);
  const padded = paddedBytes(layout, without, dim, parts, context);
  const elsewhere = layout.dims.flatMap((_, toDim): RedistributionStep[] => {
    if (toDim === dim) return [];
    const after = withAxis(without, toDim, axis);
    // The block that is exchanged is padded along both dims.
    const whole = localElements(without, context);
    const rows = sizeOf(without, dim, context);
    const columns = sizeOf(without, toDim, context);
    const block =
      (whole / Math.max(1, rows * columns)) *
      Math.ceil(rows / parts) *
      Math.ceil(columns / parts) *
      context.elementBytes;
    const move = { operation: 'allToAll', axis, dim, toDim } as const;
    return [{ move, layout: after, bytes: block * (parts - 1) }];
  });
  return [
    {
      move: { operation: 'allGather', axis, dim },
      layout: without,
      bytes: (padded / parts) * (parts - 1),
    },
    ...elsewhere,
  ];
}

function movesOfPartial(
  layout: Layout,
  axis: string,
  context: MoveContext,
): readonly RedistributionStep[] {
  const parts = axisSize(context.axes, axis);
  const without: Layout = {
    dims: layout.dims,
    partial: layout.partial.filter((name) => name !== axis),
  };
  const bytes = localElements(layout, context) * context.elementBytes;
  return [
    {
      move: { operation: 'allReduce', axis },
      layout: without,
      bytes: (2 * bytes * (parts - 1)) / parts,
    },
    ...layout.dims.map((_, dim): RedistributionStep => {
      const after = withAxis(without, dim, axis);
      const padded = paddedBytes(after, without, dim, parts, context);
      return {
        move: { operation: 'reduceScatter', axis, dim },
        layout: after,
        bytes: (padded / parts) * (parts - 1),
      };
    }),
  ];
}

/** Bytes of all ranks' parts of a dim, each as long as the longest. */
function paddedBytes(
  sharded: Layout,
  whole: Layout,
  dim: number,
  parts: number,
  context: MoveContext,
): number {
  const rows = sizeOf(whole, dim, context);
  const others = rows === 0 ? 0 : localElements(whole, context) / rows;
  return others * sizeOf(sharded, dim, context) * parts * context.elementBytes;
}

function localElements(layout: Layout, { shape, axes }: MoveContext): number {
  return elementCount(localShape(shape, layout, axes, firstPlace));
}

function sizeOf(layout: Layout, dim: number, { shape, axes }: MoveContext): number {
  return localShape(shape, layout, axes, firstPlace)[dim] ?? 0;
}

function withAxis(layout: Layout, dim: number, axis: string): Layout {
  return {
    dims: layout.dims.with(dim, [...(layout.dims[dim] ?? []), axis]),
    partial: layout.partial,
  };
}

function withoutAxis(layout: Layout, dim: number): Layout {
  return {
    dims: layout.dims.with(dim, (layout.dims[dim] ?? []).slice(0, -1)),
    partial: layout.partial,
  };
}
