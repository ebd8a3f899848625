import { matmul } from '../graph/ops/contract.ts';
import { mul } from '../graph/ops/elementwise.ts';
import { reshape, unsqueeze, sum } from '../graph/ops/movement.ts';
import { lowered } from '../graph/ops/precision.ts';
import { shapeFault } from '../graph/infer-checks.ts';
import type { Node } from '../graph/node.ts';
import { sameShape } from '../base/shape.ts';
import { isHalfDType } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import { combine } from './arithmetic.ts';

/**
 * torch.matmul: a vector is a row on the left and a column on the right, and the result does not have the added dim.
 * Shape: a [.., M, K], b [.., K, N] -> [.., M, N]. Throws ShapeError.
 */
export function multiply(x: Node, y: Node, transposeA = false, transposeB = false): Node {
  const [a, b] = [lowered(x), lowered(y)];
  const [left, right] = [a.shape.length, b.shape.length];
  if ((left === 1 && transposeA) || (right === 1 && transposeB)) {
    throw new ShapeError(
      {
        asked: 'matmul with a vector transposed',
        found: 'one dim, which there is nothing to swap with',
        todo: 'Leave the transpose of a vector out',
      },
      { shapes: [a.shape, b.shape] },
    );
  }
  if (left === 1 && right === 1) {
    if (!sameShape(a.shape, b.shape)) {
      throw shapeFault('matmul', [a, b], 'vectors of different lengths', 'Make them equally long');
    }
    if (!isHalfDType(a.dtype)) return sum(mul(a, b), [0]);
    // matmul does not round the single products to 16 bits, as mul would.
    return reshape(matmul(unsqueeze(a, 0), unsqueeze(b, 1)), []);
  }
  if (left === 1) {
    const product = matmul(unsqueeze(a, 0), b, false, transposeB);
    return reshape(product, product.shape.toSpliced(-2, 1));
  }
  if (right === 1) {
    const product = matmul(a, unsqueeze(b, 1), transposeA, false);
    return reshape(product, product.shape.slice(0, -1));
  }
  return matmul(a, b, transposeA, transposeB);
}

/** The products of all pairs of elements. Shape: a [N], b [M] -> [N, M]. */
export function outer(a: Node, b: Node): Node {
  requireVectors('outer', a, b);
  return combine('mul', unsqueeze(a, 1), b);
}

/** The sum of the products of elements. Shape: a [N], b [N] -> []. */
export function dot(a: Node, b: Node): Node {
  requireVectors('dot', a, b);
  return multiply(a, b, false, false);
}

function requireVectors(op: string, a: Node, b: Node): void {
  if (a.shape.length === 1 && b.shape.length === 1) return;
  throw shapeFault(op, [a, b], 'a tensor of other than one dim', 'Use vectors, or matmul()');
}
