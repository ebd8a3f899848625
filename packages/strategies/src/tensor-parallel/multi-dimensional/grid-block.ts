import {
  type LayerNorm,
  type Linear,
  Module,
  type MultiheadAttention,
  type Tensor,
} from '@shardwise/core/extend';
import { GridAttention } from './grid-attention.ts';
import { GridLayerNorm } from './grid-layer-norm.ts';
import { GridLinear } from './grid-linear.ts';
import type { RankGrid } from './rank-grid.ts';

/** The layers of a transformer block with a norm before each sublayer. */
export interface BlockLayers {
  readonly norm1: LayerNorm;
  readonly attention: MultiheadAttention;
  readonly norm2: LayerNorm;
  readonly up: Linear;
  readonly down: Linear;
}

interface GridLayers {
  readonly norm1: GridLayerNorm;
  readonly attention: GridAttention;
  readonly norm2: GridLayerNorm;
  readonly up: GridLinear;
  readonly down: GridLinear;
}

/** A transformer block on a grid. Its parameters have the same names as in `BlockLayers`. */
export class GridBlock extends Module {
  readonly norm1: GridLayerNorm;
  readonly attention: GridAttention;
  readonly norm2: GridLayerNorm;
  readonly up: GridLinear;
  readonly down: GridLinear;

  private constructor(layers: GridLayers) {
    super();
    this.norm1 = layers.norm1;
    this.attention = layers.attention;
    this.norm2 = layers.norm2;
    this.up = layers.up;
    this.down = layers.down;
  }

  /**
   * Shards layers. All ranks get the values of the grid's first rank. It is a collective. Throws LayoutError if
   * sizes or heads cannot be divided.
   */
  static async from(layers: BlockLayers, grid: RankGrid): Promise<GridBlock> {
    return new GridBlock({
      norm1: await GridLayerNorm.from(layers.norm1, grid),
      attention: await GridAttention.from(layers.attention, grid),
      norm2: await GridLayerNorm.from(layers.norm2, grid),
      up: await GridLinear.from(layers.up, grid),
      down: await GridLinear.from(layers.down, grid.next),
    });
  }

  /** Computes the block with causal attention. Shape: x [B', T, C'] -> [B', T, C']. */
  forward(x: Tensor): Tensor {
    const attended = x.add(this.attention.forward(this.norm1.forward(x)));
    const hidden = this.up.forward(this.norm2.forward(attended)).gelu();
    return attended.add(this.down.forward(hidden));
  }
}
