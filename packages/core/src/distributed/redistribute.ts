import { formatShape, normalizeDim } from '../base/shape.ts';
import { localShape, type PlaceOf } from '../layout/chunks.ts';
import { shardedAxes, unsharded } from '../layout/layout.ts';
import { ownPlace } from '../rank.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  type ActivationLayout,
  axisLayoutOf,
  formatAxisLayout,
  requireSharding,
  shard,
} from './axis-layout.ts';
import { asVarying, partOf } from './equal-parts.ts';
import { applyMove, moveOver } from './moves.ts';
import type { RedistributionPlan } from './redistribution.ts';

/**
 * Applies a plan to this rank's part: it adds the collectives to the graph. If the plan does not say otherwise,
 * values that are equal on all ranks of an axis are invariant there, so a gradient has the layout of its value.
 */
export function redistribute(local: Tensor, plan: RedistributionPlan, mesh: Mesh): Tensor {
  const placeOf: PlaceOf = (axis) => mesh.group(axis);
  let before = plan.from;
  let part = local;
  for (const { move, layout } of plan.steps) {
    const whole = localShape(plan.shape, unsharded(before, [move.axis]), placeOf);
    part = applyMove(part, move, whole, placeOf(move.axis));
    before = layout;
  }
  return part;
}

/**
 * Changes the layout of an activation on the ranks of one axis. Throws LayoutError for a change that does not
 * exist, and ShapeError for a dim that `x` does not have and if the ranks cannot have equal parts.
 */
export function redistributeOver(
  x: Tensor,
  axis: string,
  from: ActivationLayout,
  to: ActivationLayout,
): Tensor {
  const [before, after] = [ofActivation(x, axis, from), ofActivation(x, axis, to)];
  const move = moveOver(axis, before, after);
  if (move === null) return x;
  const place = ownPlace(axis);
  const whole =
    typeof before === 'string'
      ? x.shape
      : x.shape.map((size, dim) => (dim === before.shard ? size * place.size : size));
  if (typeof after !== 'string' && (whole[after.shard] ?? 0) % place.size !== 0) {
    throw unevenError(whole, axis, after.shard, place.size);
  }
  return applyMove(x, move, whole, place);
}

/** Counts the dim of a layout from the start. */
function ofActivation(x: Tensor, axis: string, layout: ActivationLayout): ActivationLayout {
  if (typeof layout === 'string') return layout;
  return shard(normalizeDim(`an activation sharded over '${axis}'`, layout.shard, x.ndim));
}

/** Returns this rank's part. No gradient flows through it. Shape: whole -> part, with its padding. */
export function shardOf(whole: Tensor, layout: Layout): Tensor {
  return shardedAxes(layout).reduce((x, axis) => {
    const sharding = requireSharding(axisLayoutOf(layout, axis));
    return partOf(asVarying(x, axis), sharding, ownPlace(axis));
  }, whole);
}

/**
 * Gathers the whole from the parts of all ranks. The whole and its gradient are the same on all ranks. Adds collectives
 * to the graph. Shape: part, with its padding -> whole.
 */
export function unshard(part: Tensor, layout: Layout, wholeShape: Shape): Tensor {
  const axes = shardedAxes(layout);
  return axes.toReversed().reduce((x, axis, index) => {
    const gathered = axes.slice(axes.length - 1 - index);
    const whole = localShape(wholeShape, unsharded(layout, gathered), ownPlace);
    const from = requireSharding(axisLayoutOf(layout, axis));
    const move = { operation: 'allGather', axis, from, to: 'invariant' } as const;
    return applyMove(x, move, whole, ownPlace(axis));
  }, part);
}

function unevenError(shape: Shape, axis: string, dim: number, size: number): ShapeError {
  const total = shape[dim] ?? 0;
  return new ShapeError(
    {
      asked: `dim ${dim} of an activation of shape ${formatShape(shape)} over ${size} ranks of '${axis}', as ${formatAxisLayout(shard(dim))}`,
      found: `${total} = ${Math.floor(total / size)} · ${size} + ${total % size}`,
      todo: `Pad it to a multiple of ${size}`,
    },
    { shape, dim, axis, size },
  );
}
