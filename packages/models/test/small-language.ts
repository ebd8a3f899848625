import { nn, type Tensor, tensor } from '@shardwise/core';

const vocabulary = 12;

interface Sizes {
  readonly width: number;
  readonly hidden: number;
}

/** A residual block whose layers have the names of Llama's. */
class Block extends nn.Module {
  norm: nn.LayerNorm;
  up_proj: nn.Linear;
  down_proj: nn.Linear;

  constructor({ width, hidden }: Sizes) {
    super();
    this.norm = new nn.LayerNorm(width);
    this.up_proj = new nn.Linear(width, hidden);
    this.down_proj = new nn.Linear(hidden, width);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    return x.add(this.down_proj.forward(this.up_proj.forward(this.norm.forward(x)).gelu()));
  }
}

/** A language model without attention. Its head has the weight of its embedding. */
export class SmallLanguage extends nn.Module {
  embed_tokens: nn.Embedding;
  layers: nn.ModuleList<Block>;
  lm_head: nn.Linear;

  constructor(sizes: Sizes = { width: 8, hidden: 16 }) {
    super();
    this.embed_tokens = new nn.Embedding(vocabulary, sizes.width);
    this.layers = new nn.ModuleList(Array.from({ length: 4 }, () => new Block(sizes)));
    this.lm_head = new nn.Linear(sizes.width, vocabulary, { bias: false });
    this.lm_head.weight = this.embed_tokens.weight;
  }

  /** Shape: ids [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    let x = this.embed_tokens.forward(ids);
    for (const layer of this.layers) x = layer.forward(x);
    return this.lm_head.forward(x);
  }
}

export interface LanguageBatch {
  readonly ids: Tensor;
  readonly targets: Tensor;
}

/** Rows `first` to `end` of a batch. Shape: -> ids [end - first, 4], targets the same. */
export function languageBatch(step: number, first: number, end: number): LanguageBatch {
  const rows = Array.from({ length: end - first }, (_, row) =>
    Array.from({ length: 5 }, (__, at) => (step * 7 + (row + first) * 5 + at * at * 3) % 12),
  );
  return {
    ids: tensor(
      rows.map((row) => row.slice(0, 4)),
      'i32',
    ),
    targets: tensor(
      rows.map((row) => row.slice(1)),
      'i32',
    ),
  };
}

/** Shape: logits [B, T, V], targets [B, T] -> []. */
export function languageLoss(logits: Tensor, targets: Tensor): Tensor {
  return nn.functional.crossEntropy(
    logits.to('f32').reshape([-1, vocabulary]),
    targets.reshape([-1]),
  );
}
