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
 * Rows of a table of which each rank has a block. For a look-up, the vocabulary of a rank's features is
 * gathered; the gradient is scattered.
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

  /** Cuts a layer of which all ranks get the values of the grid's first rank. Throws LayoutError if its sizes cannot be divided. */
  static async from(embedding: Embedding, grid: RankGrid): Promise<GridEmbedding> {
    return new GridEmbedding(
      grid,
      await gridParameter(embedding.weight, grid, [grid.rows, [grid.features]]),
      embedding.paddingIdx,
    );
  }

  /** Shape: indices i32 N', the rows of this rank -> [N'.., F']. */
  forward(indices: Tensor): Tensor {
    return inLayer([this.weight], () => {
      const table = this.#grid.rows.reduceRight(
        (part: Tensor, axis) => allGather(part, axis, 0),
        this.weight,
      );
      return functional.embedding(indices, table, this.paddingIdx);
    });
  }
}
