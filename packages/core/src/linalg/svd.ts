import { add, mul, neg, sub } from '../graph/ops/elementwise.ts';
import { matmul } from '../graph/ops/contract.ts';
import { expandTo, permute, reshape } from '../graph/ops/movement.ts';
import type { Node } from '../graph/node.ts';
import { requireNoMore } from '../tensor/check-calls.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  element,
  type HostMatrix,
  hostMatrix,
  leafOf,
  ofHost,
  readMatrices,
  transposed,
} from './host-matrices.ts';
import { jacobi } from './jacobi.ts';

/** The factors of x = u diag(s) vh. The columns of u and the rows of vh are orthonormal, and s descends. */
export interface SVD {
  readonly u: Tensor;
  readonly s: Tensor;
  readonly vh: Tensor;
}

/**
 * torch.linalg.svd with full_matrices=False, by one-sided Jacobi rotations. It is computed on the host in f64,
 * so it waits for x. The signs of the vectors are not determined, and neither are the vectors of equal singular
 * values, so a loss must not depend on them. Gradients by u and vh are infinite if singular values are equal.
 * Shape: x f32 [.., M, N] -> u [.., M, K], s [.., K], vh [.., K, N] with K = min(M, N).
 */
export async function svd(x: Tensor, ...more: readonly never[]): Promise<SVD> {
  requireNoMore('svd', 1, more);
  const parts = (await readMatrices('svd', x)).map((matrix) => {
    if (matrix.rows >= matrix.columns) return jacobi(matrix);
    const { u, s, v } = jacobi(transposed(matrix));
    return { u: v, s, v: u };
  });
  const [rows = 0, columns = 0] = x.shape.slice(-2);
  const size = Math.min(rows, columns);
  const batch = x.shape.slice(0, -2);
  const u = leafOf(
    parts.map((part) => part.u),
    [...batch, rows, size],
  );
  const s = leafOf(
    parts.map((part) => part.s),
    [...batch, size],
  );
  const vh = leafOf(
    parts.map((part) => transposed(part.v)),
    [...batch, size, columns],
  );
  const gaps = leafOf(
    parts.map((part) => gapsOf(part.s)),
    [...batch, size, size],
  );
  const inverse = leafOf(
    parts.map((part) => ({ ...part.s, values: part.s.values.map((value) => 1 / value) })),
    [...batch, size],
  );
  const v = swapped(vh);
  return {
    s: ofHost('svd', [x], s, (gy) => [matmul(mul(u, alongColumns(gy, u)), vh)]),
    u: ofHost('svd', [x], u, (gy) => [
      matmul(vectorGradient({ vectors: u, gradient: gy, gaps, s, inverse }), vh),
    ]),
    vh: ofHost('svd', [x], vh, (gy) => {
      const inner = vectorGradient({ vectors: v, gradient: swapped(gy), gaps, s, inverse });
      return [matmul(u, inner, false, true)];
    }),
  };
}

interface VectorGradient {
  readonly vectors: Node;
  readonly gradient: Node;
  readonly gaps: Node;
  readonly s: Node;
  readonly inverse: Node;
}

/** U (F ∘ (Uᵀ gU - gUᵀ U)) S + (I - U Uᵀ) gU S⁻¹ (Townsend 2016). Shape: vectors [.., M, K] -> [.., M, K]. */
function vectorGradient({ vectors, gradient, gaps, s, inverse }: VectorGradient): Node {
  const along = matmul(vectors, gradient, true, false);
  const turned = mul(gaps, sub(along, swapped(along)));
  const inside = matmul(vectors, mul(turned, alongColumns(s, turned)));
  const outside = add(gradient, neg(matmul(vectors, along)));
  return add(inside, mul(outside, alongColumns(inverse, outside)));
}

/** Repeats one number for each column along the rows. Shape: s [.., K], like [.., R, K] -> [.., R, K]. */
function alongColumns(s: Node, like: Node): Node {
  return expandTo(reshape(s, s.shape.toSpliced(-1, 0, 1)), like.shape);
}

function swapped(x: Node): Node {
  const last = x.shape.length - 1;
  return permute(x, [...x.shape.keys()].with(last, last - 1).with(last - 1, last));
}

/** The matrix F of vectorGradient: 1 / (s_j² - s_i²), and 0 on the diagonal. */
function gapsOf(s: HostMatrix): HostMatrix {
  const size = s.columns;
  const gaps = hostMatrix(size, size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      const [own, other] = [element(s, 0, i), element(s, 0, j)];
      if (i !== j) gaps.values[i * size + j] = 1 / ((other - own) * (other + own));
    }
  }
  return gaps;
}
