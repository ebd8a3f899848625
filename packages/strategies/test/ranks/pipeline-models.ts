import { arange, nn, type Tensor } from '@shardwise/core';

/** The letters in shapes are B rows, T tokens, C channels and V words of the vocabulary. */
const sizes = { vocabulary: 11, tokens: 5, channels: 8 };

/** A residual block with dropout. Shape: x [B, T, C] -> [B, T, C]. */
class Block extends nn.Module {
  readonly norm = new nn.LayerNorm(sizes.channels);
  readonly up = new nn.Linear(sizes.channels, 2 * sizes.channels);
  readonly down = new nn.Linear(2 * sizes.channels, sizes.channels);
  readonly dropout: nn.Dropout;

  constructor(dropout: number) {
    super();
    this.dropout = new nn.Dropout(dropout);
  }

  forward(x: Tensor): Tensor {
    const hidden = this.up.forward(this.norm.forward(x)).gelu();
    return x.add(this.dropout.forward(this.down.forward(hidden)));
  }
}

export interface LanguageOptions {
  readonly dropout?: number;
  /** Whether the head and the embedding share a weight. */
  readonly tied?: boolean;
  /** Whether the last blocks add the outputs of the first ones, and a mask that all blocks read. */
  readonly skips?: boolean;
}

/** A model with four blocks between an embedding and a head. */
export class Language extends nn.Module {
  readonly tokens = new nn.Embedding(sizes.vocabulary, sizes.channels);
  readonly positions = new nn.Embedding(sizes.tokens, sizes.channels);
  readonly blocks: nn.ModuleList<Block>;
  readonly norm = new nn.LayerNorm(sizes.channels);
  readonly head = new nn.Linear(sizes.channels, sizes.vocabulary, { bias: false });
  readonly #skips: boolean;

  constructor({ dropout = 0, tied = false, skips = false }: LanguageOptions = {}) {
    super();
    this.blocks = new nn.ModuleList(Array.from({ length: 4 }, () => new Block(dropout)));
    if (tied) this.head.weight = this.tokens.weight;
    this.#skips = skips;
  }

  /** Shape: ids i32 [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    const mask = ids
      .ge(2)
      .to('f32')
      .reshape([...ids.shape, 1]);
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(ids.shape[1] ?? 0)));
    const made: Tensor[] = [];
    for (const [index, block] of [...this.blocks].entries()) {
      const earlier = made[made.length - 1 - index];
      if (this.#skips && earlier !== undefined) x = x.add(earlier.mul(mask));
      x = block.forward(x);
      if (this.#skips) x = x.mul(mask.mul(0.5).add(0.5));
      if (index < 2) made.push(x);
    }
    if (this.#skips) for (const each of made) x = x.add(each.mul(0.1));
    return this.head.forward(this.norm.forward(x));
  }
}

/** Shape: logits [B, T, V], targets i32 [B, T] -> []. */
export function languageLoss(logits: Tensor, targets: Tensor): Tensor {
  return nn.functional.crossEntropy(logits.reshape([-1, sizes.vocabulary]), targets.reshape([-1]));
}

/** The ids and targets of a step. They are the same on all ranks. */
export function languageBatch(
  step: number,
  rows: number,
): { ids: number[][]; targets: number[][] } {
  const row = (from: number): number[] =>
    Array.from(
      { length: sizes.tokens },
      (_, at) => (from * 7 + at * 3 + step * 5) % sizes.vocabulary,
    );
  return {
    ids: Array.from({ length: rows }, (_, index) => row(index)),
    targets: Array.from({ length: rows }, (_, index) => row(index + 1)),
  };
}
