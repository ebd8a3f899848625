import {
  allGather,
  allReduce,
  allToAll,
  full,
  type Layout,
  localChunk,
  type Mesh,
  reduceScatter,
  reinterpret,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import type { RedistributionMove, RedistributionPlan } from './redistribution.ts';
import { axisSize, chunkRange, localShape } from './shard-range.ts';

/**
 * Carries a plan out on this rank's part: adds its collectives to the graph. Values that all ranks
 * of an axis have alike are invariant there, so a gradient has the layout of its value. Uneven parts
 * are padded with zeros for the way; what has no elements on any rank of the axis is not sent.
 */
export function applyRedistribution(local: Tensor, plan: RedistributionPlan, mesh: Mesh): Tensor {
  let before = plan.from;
  let part = local;
  for (const { move, layout } of plan.steps) {
    part = applyMove(part, move, { before, after: layout, shape: plan.shape, mesh });
    before = layout;
  }
  return part;
}

interface Stage {
  readonly before: Layout;
  readonly after: Layout;
  readonly shape: Shape;
  readonly mesh: Mesh;
}

function applyMove(x: Tensor, move: RedistributionMove, stage: Stage): Tensor {
  const { axis } = move;
  const parts = axisSize(stage.mesh.axes, axis);
  const mine = stage.mesh.coordinate(axis);
  switch (move.operation) {
    case 'allGather': {
      const rows = sizeOf(stage, stage.after, move.dim);
      const padded = padTo(x, move.dim, Math.ceil(rows / parts));
      if (padded.numel === 0) return padTo(padded, move.dim, rows);
      return keep(allGather(padded, axis, move.dim, 'invariant'), move.dim, rows);
    }
    case 'allReduce':
      return x.numel === 0 ? x : allReduce(x, axis, { to: 'invariant' });
    case 'reduceScatter': {
      const rows = sizeOf(stage, stage.before, move.dim);
      const { start, stop } = chunkRange(rows, parts, mine);
      const padded = padTo(x, move.dim, Math.ceil(rows / parts) * parts);
      if (padded.numel === 0) return keep(x, move.dim, stop - start);
      return keep(reduceScatter(padded, axis, move.dim), move.dim, stop - start);
    }
    case 'allToAll': {
      const rows = sizeOf(stage, stage.after, move.dim);
      const columns = sizeOf(stage, stage.before, move.toDim);
      const { start, stop } = chunkRange(columns, parts, mine);
      const block = padTo(
        padTo(x, move.dim, Math.ceil(rows / parts)),
        move.toDim,
        Math.ceil(columns / parts) * parts,
      );
      const moved =
        block.numel === 0
          ? padTo(block, move.dim, rows)
          : allToAll(block, axis, move.toDim, move.dim);
      return keep(keep(moved, move.dim, rows), move.toDim, stop - start);
    }
    case 'slice': {
      const rows = sizeOf(stage, stage.before, move.dim);
      const { start, stop } = chunkRange(rows, parts, mine);
      const padded = padTo(x, move.dim, Math.ceil(rows / parts) * parts);
      if (padded.numel === 0) return keep(x, move.dim, stop - start);
      return keep(localChunk(padded, axis, move.dim), move.dim, stop - start);
    }
    case 'keepOnFirst':
      return full([], mine === 0 ? 1 : 0, 'bool').where(
        reinterpret(x, axis, 'invariant', 'replicate'),
        0,
      );
    default:
      return move satisfies never;
  }
}

/** Of a dim of this rank's part. */
function sizeOf({ shape, mesh }: Stage, layout: Layout, dim: number): number {
  return localShape(shape, layout, mesh.axes, (axis) => mesh.coordinate(axis))[dim] ?? 0;
}

function padTo(x: Tensor, dim: number, size: number): Tensor {
  const missing = size - (x.shape[dim] ?? 0);
  if (missing === 0) return x;
  const none = x.shape.map(() => 0);
  return x.pad(none, none.with(dim, missing));
}

function keep(x: Tensor, dim: number, size: number): Tensor {
  return x.shape[dim] === size ? x : x.slice(dim, 0, size);
}
