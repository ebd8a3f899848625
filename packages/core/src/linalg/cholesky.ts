import { add, mul, scale } from '../graph/ops/elementwise.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import { matmul } from '../graph/ops/contract.ts';
import { permute } from '../graph/ops/movement.ts';
import { shapeFault } from '../graph/infer-checks.ts';
import type { Node } from '../graph/node.ts';
import { formatShape } from '../base/shape.ts';
import { ConfigError } from '../spec/errors.ts';
import { triangle } from '../tensor/arrange/triangle.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  element,
  type HostMatrix,
  hostMatrix,
  identity,
  leafOf,
  ofHost,
  readMatrices,
} from './host-matrices.ts';
import { substitute } from './substitute.ts';

/**
 * torch.linalg.cholesky: the lower triangle L with L Lᵀ = x, for symmetric positive definite matrices. Only the
 * lower half of x is read. It is computed on the host in f64, so it waits for x. Throws ConfigError for a
 * matrix that is not positive definite. Shape: x f32 [.., N, N] -> [.., N, N].
 */
export async function cholesky(x: Tensor): Promise<Tensor> {
  if (x.shape.at(-1) !== x.shape.at(-2)) {
    throw shapeFault('cholesky', [x], 'matrices that are not square', 'Use [.., N, N]');
  }
  const factors = (await readMatrices('cholesky', x)).map((matrix, i) => factorOf(matrix, i, x));
  const inverses = leafOf(
    factors.map((factor) => substitute(factor, identity(factor.rows), 'lower', false)),
    x.shape,
  );
  return ofHost('cholesky', [x], leafOf(factors, x.shape), (gradient, _, lower) => {
    const inner = halvedDiagonal(triangle('tril', matmul(lower, gradient, true, false), 0));
    const whole = matmul(matmul(inverses, inner, true, false), inverses);
    return [scale(add(whole, swapped(whole)), 0.5)];
  });
}

function factorOf(matrix: HostMatrix, index: number, { shape }: Tensor): HostMatrix {
  const size = matrix.rows;
  const lower = hostMatrix(size, size);
  for (let row = 0; row < size; row++) {
    for (let column = 0; column <= row; column++) {
      let rest = element(matrix, row, column);
      for (let k = 0; k < column; k++) rest -= element(lower, row, k) * element(lower, column, k);
      if (row === column && !(rest > 0)) throw indefinite(index, row, rest, shape);
      lower.values[row * size + column] =
        row === column ? Math.sqrt(rest) : rest / element(lower, column, column);
    }
  }
  return lower;
}

function halvedDiagonal(x: Node): Node {
  const below = triangle('tril', constantLike(x, 0.5), -1);
  return mul(x, add(below, triangle('tril', constantLike(x, 0.5), 0)));
}

function swapped(x: Node): Node {
  const dims = [...x.shape.keys()];
  return permute(x, [...dims.slice(0, -2), dims.length - 1, dims.length - 2]);
}

function indefinite(
  index: number,
  row: number,
  rest: number,
  shape: readonly number[],
): ConfigError {
  return new ConfigError(
    {
      asked: `linalg.cholesky of shape ${formatShape(shape)}`,
      found: `matrix ${index} is not positive definite: ${rest} is left of its diagonal at row ${row}`,
      todo: 'Add a small multiple of eye(N), or check the matrix',
    },
    { matrix: index, row },
  );
}
