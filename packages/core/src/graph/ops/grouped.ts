import { sizeAt } from '../../base/shape.ts';
import { createNode } from '../create-node.ts';
import { groupedMatmulShape, groupedMatmulWeightShape } from '../infer-grouped.ts';
import { none, type Node } from '../node.ts';
import { type CompositeEntries, product } from '../op-entry.ts';
import { less, lessEqual, logicalAnd, sub, where } from './elementwise.ts';
import { matmul } from './contract.ts';
import { constant, iota, zerosLike } from './leaf.ts';
import { concat, expandTo, reshape, sliceDim } from './movement.ts';
import { cumsum } from './reduce.ts';

/** Products of rows with the matrix of their group. */
export const groupedOps: CompositeEntries<'groupedMatmul' | 'groupedMatmulWeight'> = {
  groupedMatmul: {
    ...product,
    by: 'composite',
    infer: groupedMatmulShape,
    decompose: ({ transposeB }, x, w, counts) => groupedMatmulParts(x, w, counts, transposeB),
    gradient: ({ params: { transposeB } }, gy, _, x, w, counts) => {
      const [a, b] = transposeB ? [gy, x] : [x, gy];
      const ofRows = groupedMatmul(gy, w, counts, !transposeB);
      return [ofRows, groupedMatmulWeight(a, b, counts), null];
    },
  },
  groupedMatmulWeight: {
    ...product,
    by: 'composite',
    infer: groupedMatmulWeightShape,
    decompose: (_, a, b, counts) => groupedMatmulWeightParts(a, b, counts),
    gradient: (_, g, _y, a, b, counts) => [
      groupedMatmul(b, g, counts, true),
      groupedMatmul(a, g, counts),
      null,
    ],
  },
};

/**
 * Multiplies all rows by the matrix of each group, and selects for each row the product of its own group. The work is
 * that of a product of all rows for each group.
 * Shape: x [N, K], w [G, K, M], counts [G] -> [N, M].
 */
function groupedMatmulParts(x: Node, w: Node, counts: Node, transposeB: boolean): Node {
  const [groups = 0, rows = 0, columns = 0] = w.shape;
  const shape = [sizeAt(x.shape, 0), transposeB ? rows : columns];
  return membersOf(counts, sizeAt(x.shape, 0)).reduce(
    (sum, isMember, group) => {
      const matrix = groups === 1 ? w : sliceDim(w, 0, group, group + 1);
      const product = matmul(x, reshape(matrix, [rows, columns]), false, transposeB);
      return where(expandTo(isMember, shape), product, sum);
    },
    constant(0, shape, x.dtype),
  );
}

/** Shape: a [N, K], b [N, M], counts [G] -> [G, K, M]. */
function groupedMatmulWeightParts(a: Node, b: Node, counts: Node): Node {
  const [rows = 0, width = 0] = a.shape;
  const columns = sizeAt(b.shape, 1);
  // Rows of other groups may not be finite, so they are replaced by zeros in both operands.
  const own = (x: Node, isMember: Node): Node =>
    where(expandTo(isMember, x.shape), x, zerosLike(x));
  const products = membersOf(counts, rows).map((isMember) =>
    reshape(matmul(own(a, isMember), own(b, isMember), true), [1, width, columns]),
  );
  return products.length === 0 ? constant(0, [0, width, columns], a.dtype) : concat(products, 0);
}

/** For each group, the mask of its own rows. Shape: counts [G] -> bool [rows, 1] for each group. */
function membersOf(counts: Node, rows: number): Node[] {
  const ends = cumsum(counts, 0);
  const starts = sub(ends, counts);
  const row = iota([rows, 1], 0);
  return Array.from({ length: sizeAt(counts.shape, 0) }, (_, group) => {
    const bound = (of: Node): Node =>
      expandTo(reshape(sliceDim(of, 0, group, group + 1), [1, 1]), [rows, 1]);
    return logicalAnd(lessEqual(bound(starts), row), less(row, bound(ends)));
  });
}

/** Multiplies the rows of each group by its matrix. Shape: x [N, K], w [G, K, M], counts i32 [G] -> [N, M]. */
export function groupedMatmul(x: Node, w: Node, counts: Node, transposeB = false): Node {
  return createNode(groupedOps.groupedMatmul, 'groupedMatmul', { transposeB }, [x, w, counts]);
}

/** Shape: a [N, K], b [N, M], counts i32 [G] -> [G, K, M]. */
function groupedMatmulWeight(a: Node, b: Node, counts: Node): Node {
  return createNode(groupedOps.groupedMatmulWeight, 'groupedMatmulWeight', none, [a, b, counts]);
}
