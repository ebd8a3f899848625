import type { Tensor } from '@shardwise/core/extend';
import { sendingAgain } from '../gather-again.ts';
import { shared } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * x Wᵀ + b. Lies as `grid.next` then. A rank keeps its blocks for backward, and not those that it was
 * sent, which are sent again. Shape: x [B', .., I'], weight [O', I'], bias [O'] -> [B'', .., O''].
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
