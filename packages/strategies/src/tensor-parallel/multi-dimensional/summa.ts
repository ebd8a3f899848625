import { broadcast, functional, type Tensor } from '@shardwise/core/extend';

export interface SummaAxes {
  /** The axis along which ranks have other rows of x, and other input features of the weight. */
  readonly row: string;
  /** The axis along which ranks have other features. */
  readonly column: string;
  /** How many ranks each axis has. */
  readonly size: number;
}

/**
 * x Wᵀ on q × q ranks (van de Geijn & Watts 1997, "SUMMA"): in step k the k-th blocks of x go along
 * the rows and those of W along the columns of the grid, and each rank adds a product. Backward is
 * that of the broadcasts: sums to the ranks that the blocks came from (Xu et al. 2021, "Optimus").
 * Shape: x [B/q, .., I/q], weight [O/q, I/q] -> [B/q, .., O/q].
 */
export function summa(x: Tensor, weight: Tensor, { row, column, size }: SummaAxes): Tensor {
  const products = Array.from({ length: size }, (_, step) =>
    functional.linear(broadcast(x, column, step), broadcast(weight, row, step)),
  );
  return products.reduce((sum, product) => sum.add(product));
}
