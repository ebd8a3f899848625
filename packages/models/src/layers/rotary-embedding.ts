import { concat, fromData, type Tensor } from '@shardwise/core/extend';
import type { RopeParameters } from './rope-parameters.ts';
import { rotaryFrequencies, type RotaryFrequencies } from './rotary-frequencies.ts';

/** Cosines and sines of the angles of tokens. Shape: each [B, 1, T, D / 2]. */
export interface Rotation {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/**
 * Rotary position embeddings (Su et al. 2021) with the scalings of Hugging Face: pairs of dims i and i + D / 2 of
 * queries and keys turn by an angle that grows with the place of the token.
 */
export class RotaryEmbedding {
  readonly #parameters: RopeParameters;
  readonly #width: number;
  readonly #maxPositionEmbeddings: number;
  readonly #fixed: RotaryFrequencies;

  /** `width` is that of a head, D. */
  constructor(parameters: RopeParameters, width: number, maxPositionEmbeddings: number) {
    this.#parameters = parameters;
    this.#width = width;
    this.#maxPositionEmbeddings = maxPositionEmbeddings;
    this.#fixed = rotaryFrequencies(parameters, width, maxPositionEmbeddings);
  }

  /** Shape: positions i32 [B, T] -> cos, sin f32 [B, 1, T, D / 2]. */
  rotationOf(positions: Tensor): Rotation {
    const { attentionFactor } = this.#fixed;
    const places = positions.to('f32');
    const angles = places.unsqueeze(1).unsqueeze(-1).mul(this.#frequencies(places));
    const [cos, sin] = [angles.cos(), angles.sin()];
    if (attentionFactor === 1) return { cos, sin };
    return { cos: cos.mul(attentionFactor), sin: sin.mul(attentionFactor) };
  }

  /** Shape: places f32 [B, T] -> [D / 2]. */
  #frequencies(places: Tensor): Tensor {
    const { ropeType, factor = 1, ropeTheta } = this.#parameters;
    const width = this.#width;
    const fixed = fromData(this.#fixed.frequencies, [width / 2], 'f32');
    if (ropeType !== 'dynamic') return fixed;
    // The length of the longest row, beyond the length of pre-training, makes the base grow.
    const most = this.#maxPositionEmbeddings;
    const length = places.max().add(1).maximum(most);
    const growth = length.mul(factor / most).sub(factor - 1);
    const exponents = Float32Array.from({ length: width / 2 }, (_, i) => (-2 * i) / width);
    const base = growth.pow(width / (width - 2)).mul(ropeTheta);
    return base.pow(fromData(exponents, [width / 2], 'f32'));
  }
}

/** Turns the pairs of dims of queries or keys. Shape: x [B, H, T, D] -> [B, H, T, D]. */
export function rotate(x: Tensor, { cos, sin }: Rotation): Tensor {
  const [first, second] = x.chunk(2, -1);
  if (first === undefined || second === undefined) return x;
  const [c, s] = [cos.to(x.dtype), sin.to(x.dtype)];
  return concat([first.mul(c).sub(second.mul(s)), second.mul(c).add(first.mul(s))], -1);
}
