import { type Embedding, type Module, ModuleList, type Tensor } from '@shardwise/core/extend';
import { GatedMLP, type GatedMLPSettings } from '../layers/gated-mlp.ts';
import type { InitialValues } from '../layers/initial-values.ts';
import type { Norm } from '../layers/norm.ts';
import { positionsOf } from '../layers/positions.ts';
import type { RopeParameters } from '../layers/rope-parameters.ts';
import { RotaryEmbedding, type Rotation } from '../layers/rotary-embedding.ts';
import { SelfAttention, type SelfAttentionSettings } from '../layers/self-attention.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import { StateModule } from '../model/state-module.ts';

/** What decoders of Llama's family differ in. */
export interface DecoderSettings {
  readonly vocabSize: number;
  readonly layers: number;
  readonly maxPositionEmbeddings: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  /** What embeddings are multiplied by. Default: 1. */
  readonly embeddingScale?: number;
  /** The attention of all layers. */
  readonly attention: Omit<SelfAttentionSettings, 'layer' | 'window'>;
  /** The last keys that a layer sees. Undefined: all. */
  readonly windowOf?: (layer: number) => number | undefined;
  readonly rope: RopeParameters;
  /** The rotary embeddings of layers with a window, if they have others. */
  readonly windowRope?: RopeParameters;
  readonly mlp: GatedMLPSettings;
  /** Makes the experts that replace the perceptron. Default: there are none. */
  readonly experts?: (values: InitialValues) => FeedForward;
  readonly norm: (size: number) => Norm;
  /** Whether the results of attention and perceptron have a norm before they are added. Default: false. */
  readonly normsResults?: boolean;
}

/** A layer that computes each token by itself. */
interface FeedForward extends Module {
  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor;
}

/** Attention and a perceptron or experts, each with a residual connection and the norm first. */
class DecoderLayer extends StateModule {
  readonly selfAttn: SelfAttention;
  readonly mlp: GatedMLP | null;
  readonly blockSparseMoe: FeedForward | null;
  readonly inputLayernorm: Norm;
  /** The norm after attention if results have norms, and otherwise the norm before the perceptron. */
  readonly postAttentionLayernorm: Norm;
  readonly preFeedforwardLayernorm: Norm | null;
  readonly postFeedforwardLayernorm: Norm | null;

  constructor(settings: DecoderSettings, values: InitialValues, layer: number) {
    super();
    const { attention, experts, norm, normsResults = false } = settings;
    const window = settings.windowOf?.(layer);
    this.selfAttn = new SelfAttention(
      { ...attention, layer, ...(window === undefined ? {} : { window }) },
      values,
    );
    this.mlp = experts === undefined ? new GatedMLP(settings.mlp, values) : null;
    this.blockSparseMoe = experts?.(values) ?? null;
    const ofHidden = (): Norm => norm(attention.hiddenSize);
    this.inputLayernorm = ofHidden();
    this.postAttentionLayernorm = ofHidden();
    this.preFeedforwardLayernorm = normsResults ? ofHidden() : null;
    this.postFeedforwardLayernorm = normsResults ? ofHidden() : null;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, rotation: Rotation, call: ForwardCall): Tensor {
    const { preFeedforwardLayernorm: before, postFeedforwardLayernorm: after } = this;
    const attended = this.selfAttn.forward(this.inputLayernorm.forward(x), rotation, call);
    if (before === null || after === null) {
      const sum = x.add(attended);
      return sum.add(this.#feedForward(this.postAttentionLayernorm.forward(sum)));
    }
    const sum = x.add(this.postAttentionLayernorm.forward(attended));
    return sum.add(after.forward(this.#feedForward(before.forward(sum))));
  }

  #feedForward(x: Tensor): Tensor {
    return (this.mlp ?? this.blockSparseMoe)?.forward(x) ?? x;
  }
}

/** A decoder without a head. B batch, T tokens, C hiddenSize. */
export class DecoderModel extends StateModule {
  readonly embedTokens: Embedding;
  readonly layers: ModuleList<DecoderLayer>;
  readonly norm: Norm;
  readonly #settings: DecoderSettings;
  readonly #rotary: RotaryEmbedding;
  readonly #windowRotary: RotaryEmbedding | null;

  constructor(settings: DecoderSettings, values: InitialValues) {
    super();
    const { attention, rope, windowRope, maxPositionEmbeddings: length } = settings;
    const { hiddenSize, headWidth } = attention;
    this.embedTokens = values.embedding(settings.vocabSize, hiddenSize, settings.padTokenId);
    this.layers = new ModuleList(
      Array.from(
        { length: settings.layers },
        (_, layer) => new DecoderLayer(settings, values, layer),
      ),
    );
    this.norm = settings.norm(hiddenSize);
    this.#settings = settings;
    this.#rotary = new RotaryEmbedding(rope, headWidth, length);
    this.#windowRotary =
      windowRope === undefined ? null : new RotaryEmbedding(windowRope, headWidth, length);
  }

  /** Shape: inputIds i32 [B, T] -> [B, T, C]. */
  forward(inputIds: Tensor, call: ForwardCall): Tensor {
    const { embeddingScale = 1, windowOf } = this.#settings;
    const positions = positionsOf(inputIds, call);
    const rotation = this.#rotary.rotationOf(positions);
    const ofWindows = this.#windowRotary?.rotationOf(positions) ?? rotation;
    const embedded = this.embedTokens.forward(inputIds);
    let x = embeddingScale === 1 ? embedded : embedded.mul(embeddingScale);
    for (const [number, layer] of [...this.layers].entries()) {
      x = layer.forward(x, windowOf?.(number) === undefined ? rotation : ofWindows, call);
    }
    return this.norm.forward(x);
  }
}
