import { type Linear, Module, type Parameter, type Tensor } from '@shardwise/core/extend';
import { inLayer } from '../../parameters/in-layer.ts';
import { gridParameter } from './grid-parameter.ts';
import { gridProduct } from './grid-product.ts';
import type { RankGrid } from './rank-grid.ts';

/** x Wᵀ + b on a grid. It can also be a classifier, where each rank has one part of the classes. */
export class GridLinear extends Module {
  weight: Parameter;
  bias: Parameter | null;
  readonly #grid: RankGrid;

  private constructor(grid: RankGrid, weight: Parameter, bias: Parameter | null) {
    super();
    this.#grid = grid;
    this.weight = weight;
    this.bias = bias;
  }

  /**
   * Shards a layer. All ranks get the values of the grid's first rank. It is a collective. Throws LayoutError if
   * its sizes cannot be divided.
   */
  static async from(linear: Linear, grid: RankGrid): Promise<GridLinear> {
    const weight = await gridParameter(linear.weight, grid, grid.weight);
    const bias =
      linear.bias === null ? null : await gridParameter(linear.bias, grid, [[grid.next.features]]);
    return new GridLinear(grid, weight, bias);
  }

  /** The result has the layout of `grid.next`. Shape: x [B', .., I'] -> [B'', .., O'']. */
  forward(x: Tensor): Tensor {
    const parts = { weight: inLayer(this.weight), bias: inLayer(this.bias) };
    return gridProduct(x, parts, this.#grid);
  }
}
