import { add, sub } from '../graph/ops/elementwise.ts';
import { matmul } from '../graph/ops/contract.ts';
import { concat, permute, sliceDim } from '../graph/ops/movement.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import type { Node } from '../graph/node.ts';
import { triangle } from '../tensor/arrange/triangle.ts';
import { requireNoMore } from '../tensor/check-calls.ts';
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

/** The factors of x = q r. The columns of q are orthonormal, and r is an upper triangle. */
export interface QR {
  readonly q: Tensor;
  readonly r: Tensor;
}

/**
 * torch.linalg.qr with mode='reduced', by Householder reflections, with the signs of LAPACK. It is computed on the host
 * in f64, so it waits for x. Gradients require that the first min(M, N) columns are independent.
 * Shape: x f32 [.., M, N] -> q [.., M, K], r [.., K, N] with K = min(M, N).
 */
export async function qr(x: Tensor, ...more: readonly never[]): Promise<QR> {
  requireNoMore('qr', 1, more);
  const factors = (await readMatrices('qr', x)).map(reflected);
  const [rows = 0, columns = 0] = x.shape.slice(-2);
  const size = Math.min(rows, columns);
  const batch = x.shape.slice(0, -2);
  const [qs, rs] = [factors.map(({ q }) => q), factors.map(({ r }) => r)];
  const q = leafOf(qs, [...batch, rows, size]);
  const r = leafOf(rs, [...batch, size, columns]);
  const inverses = leafOf(
    rs.map((factor) => substitute(leading(factor), identity(size), 'upper', false)),
    [...batch, size, size],
  );
  const byBoth = (byQ: Node, byR: Node, input: Node): Node => {
    const last = input.shape.length - 1;
    const part = (node: Node, from: number, to: number): Node => sliceDim(node, last, from, to);
    if (columns <= rows) return squareGradient(q, r, inverses, byQ, byR);
    // With x = [A B] and r = [R S], the factors are A = q R and S = qᵀ B.
    const byS = part(byR, size, columns);
    const wide = part(input, size, columns);
    const owedQ = add(byQ, matmul(wide, byS, false, true));
    const byA = squareGradient(q, part(r, 0, size), inverses, owedQ, part(byR, 0, size));
    return concat([byA, matmul(q, byS)], last);
  };
  return {
    q: ofHost('qr', [x], q, (gy, [input = x.node]) => [byBoth(gy, constantLike(r, 0), input)]),
    r: ofHost('qr', [x], r, (gy, [input = x.node]) => [byBoth(constantLike(q, 0), gy, input)]),
  };
}

/**
 * The gradient by x: (gQ + Q copyLower(R gRᵀ - gQᵀ Q)) R⁻ᵀ (Walter and Lehmann 2018).
 * Shape: q [.., M, K], r [.., K, K] -> [.., M, K].
 */
function squareGradient(q: Node, r: Node, inverses: Node, byQ: Node, byR: Node): Node {
  const inner = sub(matmul(r, byR, false, true), matmul(byQ, q, true, false));
  const below = triangle('tril', inner, -1);
  const symmetric = add(triangle('tril', inner, 0), swapped(below));
  return matmul(add(byQ, matmul(q, symmetric)), inverses, false, true);
}

function swapped(x: Node): Node {
  const last = x.shape.length - 1;
  return permute(x, [...x.shape.keys()].with(last, last - 1).with(last - 1, last));
}

function leading(r: HostMatrix): HostMatrix {
  const square = hostMatrix(r.rows, r.rows);
  for (let row = 0; row < r.rows; row++) {
    for (let column = 0; column < r.rows; column++) {
      square.values[row * r.rows + column] = element(r, row, column);
    }
  }
  return square;
}

function reflected(matrix: HostMatrix): { q: HostMatrix; r: HostMatrix } {
  const { rows, columns } = matrix;
  const size = Math.min(rows, columns);
  const work: HostMatrix = { rows, columns, values: matrix.values.slice() };
  const reflections: Float64Array[] = [];
  for (let k = 0; k < size; k++) {
    const vector = reflectionOf(work, k);
    reflections.push(vector);
    reflect(work, vector, k);
  }
  const r = hostMatrix(size, columns);
  for (let row = 0; row < size; row++) {
    for (let column = row; column < columns; column++) {
      r.values[row * columns + column] = element(work, row, column);
    }
  }
  const q = hostMatrix(rows, size);
  for (let k = 0; k < size; k++) q.values[k * size + k] = 1;
  for (let k = size - 1; k >= 0; k--) reflect(q, reflections[k] ?? new Float64Array(rows), 0);
  return { q, r };
}

/**
 * The unit vector whose reflection makes the elements of column k below row k zero. The sign of the element in row k is
 * reversed.
 */
function reflectionOf(matrix: HostMatrix, k: number): Float64Array {
  const vector = new Float64Array(matrix.rows);
  let below = 0;
  for (let row = k; row < matrix.rows; row++) {
    vector[row] = element(matrix, row, k);
    if (row > k) below += (vector[row] ?? 0) ** 2;
  }
  if (below === 0) return new Float64Array(matrix.rows);
  const first = vector[k] ?? 0;
  const length = Math.sqrt(first * first + below);
  vector[k] = first + (first < 0 ? -length : length);
  const norm = Math.sqrt((vector[k] ?? 0) ** 2 + below);
  return vector.map((value) => value / norm);
}

function reflect(matrix: HostMatrix, vector: Float64Array, fromColumn: number): void {
  const { rows, columns, values } = matrix;
  for (let column = fromColumn; column < columns; column++) {
    let along = 0;
    for (let row = 0; row < rows; row++) along += (vector[row] ?? 0) * element(matrix, row, column);
    for (let row = 0; row < rows; row++) {
      values[row * columns + column] =
        element(matrix, row, column) - 2 * along * (vector[row] ?? 0);
    }
  }
}
