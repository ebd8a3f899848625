import { nn, type Tensor } from 'shardwise';

/** Letters: T tokens, C width, V vocabulary. */
export interface LongModelOptions {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly vocabulary: number;
  /** The number of tokens whose inner values a perceptron has at a time, and whose logits would take as much as the loss has. */
  readonly tile: number;
}

class Block extends nn.Module {
  readonly norm1: nn.LayerNorm;
  readonly qkv: nn.Linear;
  readonly projection: nn.Linear;
  readonly norm2: nn.LayerNorm;
  readonly up: nn.Linear;
  readonly down: nn.Linear;
  readonly #heads: number;
  readonly #tile: number;

  constructor({ width, heads, tile }: LongModelOptions) {
    super();
    this.norm1 = new nn.LayerNorm(width);
    this.qkv = new nn.Linear(width, 3 * width);
    this.projection = new nn.Linear(width, width);
    this.norm2 = new nn.LayerNorm(width);
    this.up = new nn.Linear(width, 4 * width);
    this.down = new nn.Linear(4 * width, width);
    this.#heads = heads;
    this.#tile = tile;
  }

  /** Shape: x [1, T, C] -> [1, T, C]. */
  forward(x: Tensor): Tensor {
    const [, T = 0, C = 0] = x.shape;
    const heads = this.qkv
      .forward(this.norm1.forward(x))
      .reshape([1, T, 3 * this.#heads, C / this.#heads])
      .transpose(1, 2);
    const [q, k, v] = heads.split(this.#heads, 1);
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    const seen = nn.functional.scaledDotProductAttention(q, k, v, { causal: true });
    const attended = x.add(this.projection.forward(seen.transpose(1, 2).flatten(2)));
    const perceptron = (part: Tensor): Tensor =>
      this.down.forward(this.up.forward(this.norm2.forward(part)).gelu());
    return attended.add(nn.tiled(perceptron, attended, { tile: this.#tile }));
  }
}

/**
 * A causal language model that never has the inner values of a perceptron, or logits, of more than a tile of tokens. It has
 * no table of positions, which would be the largest of its parameters, and knows nothing of ranks.
 */
export class LongModel extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly blocks: nn.ModuleList<Block>;
  readonly norm: nn.LayerNorm;
  readonly head: nn.Linear;
  readonly #tile: number;

  constructor(options: LongModelOptions) {
    super();
    const { layers, width, vocabulary, tile } = options;
    this.tokens = new nn.Embedding(vocabulary, width);
    this.blocks = new nn.ModuleList(Array.from({ length: layers }, () => new Block(options)));
    this.norm = new nn.LayerNorm(width);
    this.head = new nn.Linear(width, vocabulary, { bias: false });
    this.#tile = tile;
  }

  /** The mean loss of the labels. Shape: ids, labels i32 [1, T] -> []. */
  forward(ids: Tensor, labels: Tensor): Tensor {
    const [, T = 0] = ids.shape;
    let x = this.tokens.forward(ids);
    for (const block of this.blocks) x = block.forward(x);
    // Logits of all tokens for some classes at a time. So the gradient of the weight is made once, and not by each tile.
    const { weight } = this.head;
    const classes = Math.max(1, Math.floor((this.#tile * (weight.shape[0] ?? 0)) / T));
    return nn.functional.linearCrossEntropy(this.norm.forward(x), weight, labels, {
      tile: classes,
    });
  }
}
