import {
  allReduce,
  checkpoint,
  currentSession,
  type LayerNorm,
  Module,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { inLayer } from '../../parameters/in-layer.ts';
import { gridParameter, shared } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/**
 * Layer normalisation over features that the ranks of an axis shard. The ranks exchange mean and variance.
 * The backward pass computes everything else again from the input.
 */
export class GridLayerNorm extends Module {
  weight: Parameter;
  bias: Parameter;
  readonly #grid: RankGrid;
  readonly #eps: number;

  private constructor(grid: RankGrid, weight: Parameter, bias: Parameter, eps: number) {
    super();
    this.#grid = grid;
    this.weight = weight;
    this.bias = bias;
    this.#eps = eps;
  }

  /** Shards a layer. All ranks get the values of the grid's first rank. It is a collective. */
  static async from(norm: LayerNorm, grid: RankGrid): Promise<GridLayerNorm> {
    const cut = [[grid.features]];
    return new GridLayerNorm(
      grid,
      await gridParameter(norm.weight, grid, cut),
      await gridParameter(norm.bias, grid, cut),
      norm.eps,
    );
  }

  /** Shape: x [B', .., F'] -> [B', .., F']. */
  forward(x: Tensor): Tensor {
    const { features, rows } = this.#grid;
    const count = (x.shape.at(-1) ?? 0) * currentSession().mesh.group(features).size;
    const meanOf = (y: Tensor): Tensor =>
      allReduce(y.sum(-1, { keepDim: true }), features).div(count);
    const [weight, bias] = [inLayer(this.weight), inLayer(this.bias)];
    const normalize = (): Tensor => {
      const centered = x.sub(meanOf(x));
      const normal = centered.mul(meanOf(centered.square()).add(this.#eps).rsqrt());
      return normal.mul(shared(weight, rows)).add(shared(bias, rows));
    };
    return checkpoint(normalize, {
      policy: ({ op }) => (op === 'allReduce' ? 'keep' : 'recompute'),
    });
  }
}
