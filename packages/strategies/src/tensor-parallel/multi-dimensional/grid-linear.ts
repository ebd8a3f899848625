import { type Linear, Module, type Parameter, type Tensor } from '@shardwise/core';
import { gridParameter, shared } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

interface Projection {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
}

/** x Wᵀ + b on a grid; a classifier too, whose output is one part of the classes a rank. */
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
   * Cuts a layer that all ranks hold alike. Of `sections` (queries, keys, values) each rank has a
   * part of each. Throws LayoutError where its sizes do not divide.
   */
  static async from(
    linear: Linear | Projection,
    grid: RankGrid,
    sections = 1,
  ): Promise<GridLinear> {
    const weight = await gridParameter(linear.weight, grid.weight, sections);
    const bias =
      linear.bias === null
        ? null
        : await gridParameter(linear.bias, [[grid.next.features]], sections);
    return new GridLinear(grid, weight, bias);
  }

  /** Lies as `grid.next` then. Shape: x [B', .., I'] -> [B'', .., O'']. */
  forward(x: Tensor): Tensor {
    const { replicas, next } = this.#grid;
    const product = this.#grid.multiply(x, shared(this.weight, replicas));
    return this.bias === null ? product : product.add(shared(this.bias, next.rows));
  }
}
