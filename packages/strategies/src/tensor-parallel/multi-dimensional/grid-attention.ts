import {
  functional,
  LayoutError,
  Module,
  type MultiheadAttention,
  ownPlace,
  type Parameter,
  type Tensor,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import { inLayer } from '../../parameters/in-layer.ts';
import { GridLinear } from './grid-linear.ts';
import { gridParameter } from './grid-parameter.ts';
import { gridProduct } from './grid-product.ts';
import { gridSize, type RankGrid } from './rank-grid.ts';

/** The names that MultiheadAttention has in checkpoints, so that each can read the other's. */
const names: Readonly<Record<string, string>> = {
  inProjWeight: 'in_proj_weight',
  inProjBias: 'in_proj_bias',
  outProj: 'out_proj',
};

/** Causal attention on a grid: each rank has some of the sequences and of the heads, and drops weights of its own. */
export class GridAttention extends Module {
  inProjWeight: Parameter;
  inProjBias: Parameter | null;
  readonly outProj: GridLinear;
  readonly dropout: number;
  readonly #grid: RankGrid;
  readonly #headWidth: number;

  private constructor(
    grid: RankGrid,
    { headWidth, dropout }: Pick<MultiheadAttention, 'headWidth' | 'dropout'>,
    [weight, bias]: readonly [Parameter, Parameter | null],
    outProj: GridLinear,
  ) {
    super();
    this.#grid = grid;
    this.#headWidth = headWidth;
    this.dropout = dropout;
    this.inProjWeight = weight;
    this.inProjBias = bias;
    this.outProj = outProj;
  }

  /**
   * Shards a layer. All ranks get the values of the grid's first rank. It is a collective. Throws LayoutError if
   * sizes or heads cannot be divided.
   */
  static async from(attention: MultiheadAttention, grid: RankGrid): Promise<GridAttention> {
    requireHeads(attention, grid);
    const { inProjWeight, inProjBias, outProj } = attention;
    const weight = await gridParameter(inProjWeight, grid, grid.weight, SECTIONS);
    const bias =
      inProjBias === null
        ? null
        : await gridParameter(inProjBias, grid, [[grid.next.features]], SECTIONS);
    return new GridAttention(
      grid,
      attention,
      [weight, bias],
      await GridLinear.from(outProj, grid.next),
    );
  }

  /** Shape: x [B', T, C'] -> [B', T, C']. */
  forward(x: Tensor): Tensor {
    const weight = inLayer(this.inProjWeight);
    const bias = inLayer(this.inProjBias);
    const qkv = gridProduct(x, { weight, bias }, this.#grid);
    const [B = 0, T = 0, width = 0] = qkv.shape;
    const heads = width / SECTIONS / this.#headWidth;
    const all = qkv.reshape([B, T, SECTIONS * heads, this.#headWidth]).transpose(1, 2);
    const [q, k, v] = all.split(heads, 1);
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    const dropout = this.training ? this.dropout : 0;
    const attended = withOwnKeys(this.#grid.next, () =>
      functional.scaledDotProductAttention(q, k, v, { causal: true, dropout }),
    );
    return this.outProj.forward(attended.transpose(1, 2).flatten(2));
  }

  protected override nameOf(field: string): string {
    return names[field] ?? field;
  }
}

/** Has each rank draw random numbers of its own, because no two ranks have the same rows and features. */
function withOwnKeys(grid: RankGrid, body: () => Tensor): Tensor {
  const draw = [...grid.rows, grid.features].reduce(
    (inner, axis) => () => withCoordinateKeys(ownPlace(axis).rank, inner),
    body,
  );
  return draw();
}

/** The number of sections of the projection: queries, keys and values. */
const SECTIONS = 3;

function requireHeads({ numHeads, keyHeads }: MultiheadAttention, grid: RankGrid): void {
  const size = gridSize(grid.name, [grid.next.features]);
  if (numHeads % size === 0 && keyHeads === numHeads) return;
  throw new LayoutError(
    {
      asked: `attention of ${numHeads} heads over ${keyHeads} key heads on a ${grid.name} grid`,
      found: `${size} ranks divide the heads`,
      todo: `Use as many key heads as heads, and a multiple of ${size}`,
    },
    { numHeads, keyHeads, size },
  );
}
