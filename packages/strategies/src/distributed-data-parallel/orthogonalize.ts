import { concat, type Tensor } from '@shardwise/core/extend';

/**
 * Orthogonalizes the columns by the modified Gram-Schmidt process, as an expression. `epsilon` is added to each norm. A
 * column of zeros stays zero. Shape: [N, K] -> [N, K].
 */
export function orthogonalize(matrix: Tensor, epsilon: number): Tensor {
  const [, count = 0] = matrix.shape;
  let rest = matrix;
  const done: Tensor[] = [];
  for (let index = 0; index < count; index++) {
    const column = rest.slice(1, 0, 1);
    const norm = column.square().sum().sqrt().add(epsilon);
    const unit = column.div(norm.eq(0).where(1, norm));
    done.push(unit);
    if (index === count - 1) break;
    const others = rest.slice(1, 1);
    const shares = unit.matmul(others, { transposeA: true });
    rest = others.sub(unit.matmul(shares));
  }
  return done.length === 1 ? (done[0] ?? matrix) : concat(done, 1);
}
