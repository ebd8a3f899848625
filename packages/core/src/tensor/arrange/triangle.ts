import { requireIntegers } from '../../base/check-options.ts';
import { lessEqual, offset, where } from '../../graph/ops/elementwise.ts';
import { constantLike, iota } from '../../graph/ops/leaf.ts';
import { expandTo } from '../../graph/ops/movement.ts';
import { shapeFault } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';

/**
 * Sets elements above (tril) or below (triu) a diagonal to 0. Diagonal 0 is the main one, and higher numbers lie above
 * it. Shape: [.., R, C] -> [.., R, C].
 */
export function triangle(op: 'tril' | 'triu', x: Node, diagonal = 0): Node {
  requireIntegers(op, { diagonal });
  const shape = x.shape.slice(-2);
  if (shape.length < 2) {
    throw shapeFault(
      op,
      [x],
      `${x.shape.length} dims`,
      'Use a matrix, or matrices behind batch dims',
    );
  }
  const [row, column] = [offset(iota(shape, 0), diagonal), iota(shape, 1)];
  const isKept = op === 'tril' ? lessEqual(column, row) : lessEqual(row, column);
  return where(expandTo(isKept, x.shape), x, constantLike(x, 0));
}
