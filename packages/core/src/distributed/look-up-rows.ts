import { createNodeOf } from '../graph/ops/ops.ts';
import type { Node } from '../graph/node.ts';
import { formatShape } from '../base/shape.ts';
import { dimRanges } from '../layout/chunks.ts';
import { formatLayout } from '../layout/layout.ts';
import { ownPlace } from '../rank.ts';
import type { Shape } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { Layout } from '../spec/layout.ts';
import type { Op, OpParams } from '../spec/op.ts';
import { indicesInRange } from '../tensor/indices-in-range.ts';
import { Tensor } from '../tensor/tensor.ts';

/** A look-up of which this rank has some rows. */
export interface RowsOfRank {
  readonly op: Op;
  readonly params: OpParams[Op];
  /** The dim of the rows. */
  readonly dim: number;
  /** The shape and the layout of the tensor of all rows. */
  readonly shape: Shape;
  readonly layout: Layout;
}

/**
 * Looks up the rows of this rank by indices of all rows. The result is zeros for rows of other ranks, as in Megatron's
 * VocabParallelEmbedding, so it is a partial sum. Shape: part of x, index -> that of the op.
 */
export function lookUpRows(
  { op, params, dim, shape, layout }: RowsOfRank,
  x: Node,
  index: Node,
): Node {
  const size = shape[dim] ?? 0;
  const ranges = dimRanges(size, layout.dims[dim] ?? [], layout, ownPlace);
  const [{ start, stop } = { start: 0, stop: 0 }] = ranges;
  if (ranges.length > 1) {
    throw new LayoutError(
      {
        asked: `${op} of rows ${formatShape(shape)} as ${formatLayout(layout)}`,
        found: `${ranges.length} ranges of rows on this rank`,
        todo: 'Shard the rows in one section',
      },
      { op, shape, layout },
    );
  }
  const part = new Tensor(x);
  const before = part.shape.map((_, at) => (at === dim ? 1 : 0));
  // A rank without rows looks up a row of padding, so that all ranks build the same graph.
  const rows =
    stop > start
      ? part
      : part.pad(
          before.map(() => 0),
          before,
        );
  const indices = indicesInRange(new Tensor(index), size, op);
  const isHere = indices.ge(start).logicalAnd(indices.lt(stop));
  const own = isHere.where(indices.sub(start), 0);
  const found = new Tensor(createNodeOf(op, params, [rows.node, own.node]));
  // The index of indexSelect has one dim, that of gather has the dims of the result.
  const mask =
    op === 'gather'
      ? isHere
      : isHere.reshape(found.shape.map((each, at) => (at === dim ? each : 1)));
  return mask.where(found, 0).node;
}
