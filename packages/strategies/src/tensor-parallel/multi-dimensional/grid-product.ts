import type { Tensor } from '@shardwise/core/extend';
import { sendingAgain } from '../gather-again.ts';
import { shared } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * Computes x Wᵀ + b. The result has the layout of `grid.next`. For the backward pass a rank keeps its own blocks. The
 * blocks of others are sent again. Shape: x [B', .., I'], weight [O', I'], bias [O'] -> [B'', .., O''].
 */
export function gridProduct(
  x: Tensor,
  { weight, bias }: { readonly weight: Tensor; readonly bias: Tensor | null },
  grid: RankGrid,
): Tensor {
  const { replicas, next } = grid;
  const product = sendingAgain(() => grid.multiply(x, shared(weight, replicas)));
  return bias === null ? product : product.add(shared(bias, next.rows));
}
