import {
  functional,
  type LayerNorm,
  LayoutError,
  type Linear,
  Module,
  type MultiheadAttention,
  type Tensor,
} from '@shardwise/core';
import { gridSize } from './grid-size.ts';
import { GridLayerNorm } from './grid-layer-norm.ts';
import { GridLinear } from './grid-linear.ts';
import type { RankGrid } from './rank-grid.ts';

/** The layers of a transformer block with the norms first. */
export interface BlockLayers {
  readonly norm1: LayerNorm;
  readonly attention: MultiheadAttention;
  readonly norm2: LayerNorm;
  readonly up: Linear;
  readonly down: Linear;
}

interface GridLayers {
  readonly norm1: GridLayerNorm;
  readonly qkv: GridLinear;
  readonly projection: GridLinear;
  readonly norm2: GridLayerNorm;
  readonly up: GridLinear;
  readonly down: GridLinear;
}

/** A transformer block on a grid: each rank has some of the sequences and, in attention, some of the heads. */
export class GridBlock extends Module {
  readonly norm1: GridLayerNorm;
  readonly qkv: GridLinear;
  readonly projection: GridLinear;
  readonly norm2: GridLayerNorm;
  readonly up: GridLinear;
  readonly down: GridLinear;
  readonly #headWidth: number;

  private constructor(layers: GridLayers, headWidth: number) {
    super();
    this.norm1 = layers.norm1;
    this.qkv = layers.qkv;
    this.projection = layers.projection;
    this.norm2 = layers.norm2;
    this.up = layers.up;
    this.down = layers.down;
    this.#headWidth = headWidth;
  }

  /** Cuts layers that all ranks hold alike. Throws LayoutError where sizes or heads do not divide. */
  static async from(layers: BlockLayers, grid: RankGrid): Promise<GridBlock> {
    const { attention } = layers;
    requireHeads(attention, grid);
    const qkv = { weight: attention.inProjWeight, bias: attention.inProjBias };
    return new GridBlock(
      {
        norm1: await GridLayerNorm.from(layers.norm1, grid),
        qkv: await GridLinear.from(qkv, grid, 3),
        projection: await GridLinear.from(attention.outProj, grid.next),
        norm2: await GridLayerNorm.from(layers.norm2, grid),
        up: await GridLinear.from(layers.up, grid),
        down: await GridLinear.from(layers.down, grid.next),
      },
      attention.headWidth,
    );
  }

  /** Causal. Shape: x [B', T, C'] -> [B', T, C']. */
  forward(x: Tensor): Tensor {
    const attended = x.add(this.projection.forward(this.#attend(this.norm1.forward(x))));
    const hidden = this.up.forward(this.norm2.forward(attended)).gelu();
    return attended.add(this.down.forward(hidden));
  }

  #attend(x: Tensor): Tensor {
    const qkv = this.qkv.forward(x);
    const [B = 0, T = 0, width = 0] = qkv.shape;
    const heads = width / 3 / this.#headWidth;
    const all = qkv.reshape([B, T, 3 * heads, this.#headWidth]).transpose(1, 2);
    const [q, k, v] = all.split(heads, 1);
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    return functional
      .scaledDotProductAttention(q, k, v, { causal: true })
      .transpose(1, 2)
      .flatten(2);
  }
}

function requireHeads({ numHeads, keyHeads }: MultiheadAttention, grid: RankGrid): void {
  const size = gridSize(grid.name, [grid.next.features]);
  if (numHeads % size === 0 && keyHeads === numHeads) return;
  throw new LayoutError(
    {
      asked: `attention of ${numHeads} heads over ${keyHeads} key heads on a ${grid.name} grid`,
      found: `${size} ranks share out the heads`,
      todo: `Use as many key heads as heads, and a multiple of ${size}`,
    },
    { numHeads, keyHeads, size },
  );
}
