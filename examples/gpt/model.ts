import { arange, nn, type Tensor } from 'shardwise';

/** Letters: B batch, T tokens, C channels, H heads, D = C / H, V vocabulary. */
export interface GPTOptions {
  readonly vocabularySize: number;
  readonly contextLength: number;
  readonly layers: number;
  readonly heads: number;
  readonly channels: number;
  /** The width of the perceptron, or of each expert. Default: 4 channels. */
  readonly hiddenChannels?: number;
  /**
   * The number of experts that replace each perceptron. `gate` chooses some of them for each token. Default: 0, none.
   */
  readonly experts?: number;
  /** Default: two experts for each token, those with the largest probabilities, which are scaled to sum to 1. */
  readonly gate?: nn.Gate;
  /** Whether the backward pass computes the activations inside each block again. Default: false. */
  readonly checkpointing?: boolean;
}

/** Attention of each token to itself and the tokens before it. */
class CausalSelfAttention extends nn.Module {
  readonly qkv: nn.Linear;
  readonly projection: nn.Linear;
  readonly #headWidth: number;

  constructor({ channels, heads }: GPTOptions) {
    super();
    this.#headWidth = channels / heads;
    this.qkv = new nn.Linear(channels, 3 * channels);
    this.projection = new nn.Linear(channels, channels);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const qkv = this.qkv.forward(x); // [B, T, 3HD]
    // The numbers of tokens and heads follow from the product, because a rank may have only a part of either.
    const [B = 0, T = 0, width = 0] = qkv.shape;
    const H = width / 3 / this.#headWidth;
    // The heads of query, key and value follow each other.
    const heads = qkv.reshape([B, T, 3 * H, this.#headWidth]).transpose(1, 2); // [B, 3H, T, D]
    const [query, key, value] = heads.split(H, 1); // each [B, H, T, D]
    if (query === undefined || key === undefined || value === undefined)
      throw new RangeError('three parts');
    const attended = nn.functional.scaledDotProductAttention(query, key, value, { causal: true });
    return this.projection.forward(attended.transpose(1, 2).flatten(2));
  }
}

/** Attention and a two-layer perceptron, each with a residual connection and the norm first. */
class Block extends nn.Module {
  readonly norm1: nn.LayerNorm;
  readonly attention: CausalSelfAttention;
  readonly norm2: nn.LayerNorm;
  readonly up: nn.Linear;
  readonly down: nn.Linear;

  constructor(options: GPTOptions) {
    super();
    const { channels, hiddenChannels = 4 * channels } = options;
    this.norm1 = new nn.LayerNorm(channels);
    this.attention = new CausalSelfAttention(options);
    this.norm2 = new nn.LayerNorm(channels);
    this.up = new nn.Linear(channels, hiddenChannels);
    this.down = new nn.Linear(hiddenChannels, channels);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const attended = x.add(this.attention.forward(this.norm1.forward(x)));
    const hidden = this.up.forward(this.norm2.forward(attended)).gelu(); // [B, T, 4C]
    return attended.add(this.down.forward(hidden));
  }
}

/** A block with experts instead of the perceptron (Fedus et al. 2021). Each token goes to some of them. */
class ExpertBlock extends nn.Module {
  readonly norm1: nn.LayerNorm;
  readonly attention: CausalSelfAttention;
  readonly norm2: nn.LayerNorm;
  readonly experts: nn.MixtureOfExperts;

  constructor(options: GPTOptions, experts: number) {
    super();
    const { channels, hiddenChannels = 4 * channels } = options;
    const { gate = nn.topKGate({ normalize: 'chosen' }) } = options;
    this.norm1 = new nn.LayerNorm(channels);
    this.attention = new CausalSelfAttention(options);
    this.norm2 = new nn.LayerNorm(channels);
    this.experts = new nn.MixtureOfExperts(channels, hiddenChannels, experts, {
      gate,
      balance: { kind: 'megatron', coefficient: 0.01 },
      zLoss: 1e-3,
    });
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const attended = x.add(this.attention.forward(this.norm1.forward(x)));
    return attended.add(this.experts.forward(this.norm2.forward(attended)));
  }
}

/** A decoder-only transformer in the manner of GPT-2 (Radford et al. 2019). */
export class GPT extends nn.Module {
  readonly tokens: nn.Embedding;
  readonly positions: nn.Embedding;
  readonly blocks: nn.ModuleList<Block | ExpertBlock>;
  readonly norm: nn.LayerNorm;
  readonly head: nn.Linear;
  readonly #checkpointing: boolean;

  constructor(options: GPTOptions) {
    super();
    const { vocabularySize, contextLength, layers, channels, experts = 0 } = options;
    this.#checkpointing = options.checkpointing ?? false;
    this.tokens = new nn.Embedding(vocabularySize, channels);
    this.positions = new nn.Embedding(contextLength, channels);
    this.blocks = new nn.ModuleList(
      Array.from({ length: layers }, () =>
        experts > 0 ? new ExpertBlock(options, experts) : new Block(options),
      ),
    );
    this.norm = new nn.LayerNorm(channels);
    this.head = new nn.Linear(channels, vocabularySize, { bias: false });
  }

  /** Returns the logits of the next token. Shape: ids i32 [B, T] -> [B, T, V]. */
  forward(ids: Tensor): Tensor {
    const [, T = 0] = ids.shape;
    let x = this.tokens.forward(ids).add(this.positions.forward(arange(T)));
    for (const block of this.blocks) {
      const input = x;
      x = this.#checkpointing ? nn.checkpoint(() => block.forward(input)) : block.forward(input);
    }
    return this.head.forward(this.norm.forward(x));
  }
}
