import {
  allGather,
  type Embedding,
  functional,
  Module,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { inLayer } from '../../parameters/in-layer.ts';
import { gridParameter } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * An embedding of which each rank has a block. For a look-up, the rank gathers the vocabulary of its features. The
 * backward pass scatters the gradient.
 */
export class GridEmbedding extends Module {
  weight: Parameter;
  readonly paddingIdx: number | undefined;
  readonly #grid: RankGrid;

  private constructor(grid: RankGrid, weight: Parameter, paddingIdx: number | undefined) {
    super();
    this.#grid = grid;
    this.weight = weight;
    this.paddingIdx = paddingIdx;
  }

  /**
   * Shards a layer. All ranks get the values of the grid's first rank. It is a collective. Throws LayoutError if
   * its sizes cannot be divided.
   */
  static async from(embedding: Embedding, grid: RankGrid): Promise<GridEmbedding> {
    return new GridEmbedding(
      grid,
      await gridParameter(embedding.weight, grid, [grid.rows, [grid.features]]),
      embedding.paddingIdx,
    );
  }

  /** Looks up the indices of this rank's rows. Shape: indices i32 N' -> [N'.., F']. */
  forward(indices: Tensor): Tensor {
    const own: Tensor = inLayer(this.weight);
    const table = this.#grid.rows.reduceRight((part, axis) => allGather(part, axis, 0), own);
    return functional.embedding(indices, table, this.paddingIdx);
  }
}
