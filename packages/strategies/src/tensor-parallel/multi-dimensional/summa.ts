import { broadcast, functional, type Tensor } from '@shardwise/core/extend';

export interface SummaAxes {
  /** The axis along which ranks have different rows of x, and different input features of the weight. */
  readonly row: string;
  /** The axis along which ranks have different features. */
  readonly column: string;
  /** The number of ranks of each axis. */
  readonly size: number;
}

/**
 * x Wᵀ on q × q ranks (van de Geijn & Watts 1997, "SUMMA"). In step k, the k-th blocks of x are broadcast along the
 * rows of the grid and those of W along its columns, and each rank adds a product. The backward pass is that of the
 * broadcasts: it sums gradients on the ranks that the blocks came from (Xu et al. 2021, "Optimus"). Shape: x [B/q, ..,
 * I/q], weight [O/q, I/q] -> [B/q, .., O/q].
 */
export function summa(x: Tensor, weight: Tensor, { row, column, size }: SummaAxes): Tensor {
  const products = Array.from({ length: size }, (_, step) =>
    functional.linear(broadcast(x, column, step), broadcast(weight, row, step)),
  );
  return products.reduce((sum, product) => sum.add(product));
}
