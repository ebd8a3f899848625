import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { normalizeDim } from '../base/shape.ts';
import { concat } from '../tensor/create.ts';
import { joinGradients } from '../tensor/join-gradients.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { checkpoint } from './checkpoint.ts';

/** Options of `tiled`. */
export interface TiledOptions {
  /** The largest number of indices of the dim that are computed at a time. */
  readonly tile: number;
  /** The dim that is cut into tiles: that of the tokens. Default: 1. */
  readonly dim?: number;
}

const tiledRules: OptionRules<TiledOptions> = {
  tile: option.required(option.integer(1)),
  dim: option.integer(Number.MIN_SAFE_INTEGER),
};

/**
 * Computes a module of tokens, such as a perceptron, for one tile of tokens after the other, so that its inner values are
 * never there for all tokens (DeepSpeed's TiledMLP). The backward pass computes them again, tile by tile. `forward` must
 * compute each index of the dim by itself:
 *
 *     nn.tiled((x) => this.down.forward(this.up.forward(x).gelu()), x, { tile: 4096 })
 *
 * Shape: x [.., N, ..] -> [.., N, ..].
 */
export function tiled(forward: (x: Tensor) => Tensor, x: Tensor, options: TiledOptions): Tensor {
  checkOptions('tiled', options, tiledRules);
  const { tile, dim = 1 } = options;
  const at = normalizeDim('tiled', dim, x.ndim);
  // The gradients of the tiles of x are concatenated, whatever other uses x has. The backward pass enters the region of a
  // tile when it comes to its result, and not to the concatenation, which would enter all of them at once.
  const parts = joinGradients(x).split(tile, at);
  const tiles = parts.map((part) => joinGradients(checkpoint(() => forward(part))));
  const [only] = tiles;
  return only !== undefined && tiles.length === 1 ? only : concat(tiles, at);
}
