import { formatShape } from '../base/shape.ts';
import { axesOfLayout, formatLayout } from '../layout/layout.ts';
import { type DType, dtypes, type Shape } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { MeshAxis } from '../spec/mesh.ts';
import { axisLayoutOf, sameAxisLayout } from './axis-layout.ts';
import { firstPlace } from './axis-size.ts';
import { checkLayout } from './check-layout.ts';
import { collectivesOfMove } from './moves.ts';
import { movesFrom, type MoveContext } from './redistribution-moves.ts';
import type { RedistributionPlan, RedistributionStep } from './redistribution.ts';

/** A sequence of steps to a layout, with its costs. */
interface Route {
  readonly layout: Layout;
  readonly steps: readonly RedistributionStep[];
  readonly bytes: number;
  readonly collectives: number;
}

/**
 * Returns the cheapest way from one layout to another. For a single axis, this is its one collective. Otherwise it is
 * the way with the fewest bytes received, then the fewest collectives, then the fewest steps. Axes whose place does not
 * change take no part. The result is the same on every rank. Throws LayoutError for a layout that does not fit the
 * shape or the axes.
 */
export function planRedistribution(
  from: Layout,
  to: Layout,
  shape: Shape,
  axes: readonly MeshAxis[],
  dtype: DType = 'f32',
): RedistributionPlan {
  checkLayout(from, shape, axes);
  checkLayout(to, shape, axes);
  const moving = movingAxes(from, to);
  const context: MoveContext = {
    shape,
    placeOf: firstPlace(axes),
    elementBytes: dtypes[dtype].bytes,
    moving: axes.map(({ name }) => name).filter((name) => moving.has(name)),
    goal: to,
  };
  const { steps, bytes } = cheapestRoute(from, context);
  return { from, to, shape, steps, bytes };
}

/** Uniform-cost search (Dijkstra 1959) over the layouts that moves lead to. */
function cheapestRoute(from: Layout, context: MoveContext): Pick<Route, 'steps' | 'bytes'> {
  const goal = layoutKey(context.goal);
  if (context.moving.length === 1) {
    // For one axis, take its direct move. With padding, two other moves could send fewer bytes, but they are not less
    // work.
    const step = movesFrom(from, context).find(({ layout }) => layoutKey(layout) === goal);
    if (step !== undefined) return { steps: [step], bytes: step.bytes };
  }
  const done = new Set<string>();
  const open = new Map<string, Route>([
    [layoutKey(from), { layout: from, steps: [], bytes: 0, collectives: 0 }],
  ]);
  while (open.size > 0) {
    const [key, route] = [...open].reduce((best, next) =>
      isCheaper(next[1], best[1]) ? next : best,
    );
    if (key === goal) return route;
    open.delete(key);
    done.add(key);
    for (const step of movesFrom(route.layout, context)) {
      const nextKey = layoutKey(step.layout);
      if (done.has(nextKey)) continue;
      const next = extended(route, step);
      const known = open.get(nextKey);
      if (known === undefined || isCheaper(next, known)) open.set(nextKey, next);
    }
  }
  throw new LayoutError(
    {
      asked: `to redistribute a tensor of shape ${formatShape(context.shape)}`,
      found: `no way from ${formatLayout(from)} to ${formatLayout(context.goal)}`,
      todo: 'Go through the replicated layout',
    },
    { from, to: context.goal },
  );
}

function extended(route: Route, step: RedistributionStep): Route {
  const isLocal = collectivesOfMove(step.move).forward === null;
  return {
    layout: step.layout,
    steps: [...route.steps, step],
    bytes: route.bytes + step.bytes,
    collectives: route.collectives + (isLocal ? 0 : 1),
  };
}

function isCheaper(a: Route, b: Route): boolean {
  if (a.bytes !== b.bytes) return a.bytes < b.bytes;
  if (a.collectives !== b.collectives) return a.collectives < b.collectives;
  return a.steps.length < b.steps.length;
}

/**
 * Returns the axes that must move. For each dim, these are the axes after those with which both layouts begin. Other
 * axes move if their layout changes.
 */
function movingAxes(from: Layout, to: Layout): ReadonlySet<string> {
  const behind = (own: readonly string[], wanted: readonly string[]): readonly string[] => {
    const same = own.findIndex((axis, index) => axis !== wanted[index]);
    const kept = same < 0 ? own.length : same;
    return [...own.slice(kept), ...wanted.slice(kept)];
  };
  const byDim = from.dims.flatMap((own, dim) => behind(own, to.dims[dim] ?? []));
  const isOther = (axis: string): boolean =>
    !sameAxisLayout(axisLayoutOf(from, axis), axisLayoutOf(to, axis));
  return new Set([
    ...byDim,
    ...behind(from.flat ?? [], to.flat ?? []),
    ...[...axesOfLayout(from), ...axesOfLayout(to)].filter(isOther),
    // A tensor that is sharded flat is gathered before its dims change.
    ...(byDim.length === 0 ? [] : (from.flat ?? [])),
  ]);
}

/** Returns a key for a layout. The order of axes that do not shard is ignored. */
export function layoutKey(layout: Layout): string {
  const { dims, partial, flat = [], replicate = [], sections = {}, chunkSizes = {} } = layout;
  const bySection = Object.entries(sections).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const byChunk = Object.entries(chunkSizes).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([dims, partial.toSorted(), flat, replicate.toSorted(), bySection, byChunk]);
}
