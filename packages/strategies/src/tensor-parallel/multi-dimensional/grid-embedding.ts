import {
  allGather,
  type Embedding,
  functional,
  Module,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { inLayer } from '../in-layer.ts';
import { gridParameter } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * An embedding of which each rank has a block. For a look-up, the rank gathers the vocabulary of its features. The
 * backward pass scatters the gradient.
 */
export class GridEmbedding extends Module {
  weight: Parameter;
  readonly #grid: RankGrid;

  private constructor(grid: RankGrid, weight: Parameter) {
    super();
    this.#grid = grid;
    this.weight = weight;
  }

  /** Cuts a layer that is the same on all ranks. Throws LayoutError if its sizes cannot be divided. */
  static async from(embedding: Embedding, grid: RankGrid): Promise<GridEmbedding> {
    return new GridEmbedding(
      grid,
      await gridParameter(embedding.weight, [grid.rows, [grid.features]]),
    );
  }

  /** Looks up the indices of this rank's rows. Shape: indices i32 N' -> [N'.., F']. */
  forward(indices: Tensor): Tensor {
    return inLayer([this.weight], () => {
      const table = this.#grid.rows.reduceRight(
        (part: Tensor, axis) => allGather(part, axis, 0),
        this.weight,
      );
      return functional.embedding(indices, table);
    });
  }
}
