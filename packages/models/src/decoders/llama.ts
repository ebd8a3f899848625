import {
  type Embedding,
  type Linear,
  ModuleList,
  RMSNorm,
  type Tensor,
} from '@shardwise/core/extend';
import { z } from 'zod';
import { activate, type ActivationName, activationNames } from '../layers/activations.ts';
import { attention, intoHeads, joinHeads } from '../layers/attention.ts';
import { causalLoss } from '../layers/causal-loss.ts';
import { InitialValues } from '../layers/initial-values.ts';
import { positionsOf } from '../layers/positions.ts';
import { type RawRopeParameters, ropeParametersOf, ropeSchema } from '../layers/rope-parameters.ts';
import { rotate, RotaryEmbedding, type Rotation } from '../layers/rotary-embedding.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import { PretrainedModel, type PretrainedOptions } from '../model/pretrained-model.ts';
import { StateModule } from '../model/state-module.ts';

/** Hugging Face's LlamaConfig. */
export interface LlamaConfig extends PretrainedConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  /** The number of heads of keys and values. Null: numAttentionHeads. */
  readonly numKeyValueHeads: number | null;
  /** The width of a head. Null: hiddenSize / numAttentionHeads. */
  readonly headDim: number | null;
  readonly hiddenAct: ActivationName;
  readonly maxPositionEmbeddings: number;
  readonly initializerRange: number;
  readonly rmsNormEps: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  readonly tieWordEmbeddings: boolean;
  readonly ropeTheta: number | null;
  readonly ropeScaling: RawRopeParameters | null;
  readonly ropeParameters: RawRopeParameters | null;
  readonly attentionBias: boolean;
  readonly attentionDropout: number;
  readonly mlpBias: boolean;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(32000),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(11008),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(null),
  headDim: rule.size.multipleOf(2).nullable().default(null),
  hiddenAct: z.enum(activationNames).default('silu'),
  maxPositionEmbeddings: rule.size.default(2048),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  ropeTheta: z.number().positive().nullable().default(null),
  ropeScaling: ropeSchema.nullable().default(null),
  ropeParameters: ropeSchema.nullable().default(null),
  attentionBias: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  mlpBias: z.boolean().default(false),
  rest: rule.rest.default({}),
});

const format: ConfigFormat<LlamaConfig> = { modelType: 'llama', schema };

class LlamaAttention extends StateModule {
  readonly qProj: Linear;
  readonly kProj: Linear;
  readonly vProj: Linear;
  readonly oProj: Linear;
  readonly #layer: number;
  readonly #width: number;
  readonly #dropout: number;

  constructor(config: LlamaConfig, values: InitialValues, layer: number) {
    super();
    const { hiddenSize, numAttentionHeads, attentionBias: bias } = config;
    const keyHeads = config.numKeyValueHeads ?? numAttentionHeads;
    const width = headWidth(config);
    this.qProj = values.linear(hiddenSize, numAttentionHeads * width, { bias });
    this.kProj = values.linear(hiddenSize, keyHeads * width, { bias });
    this.vProj = values.linear(hiddenSize, keyHeads * width, { bias });
    this.oProj = values.linear(numAttentionHeads * width, hiddenSize, { bias });
    this.#layer = layer;
    this.#width = width;
    this.#dropout = config.attentionDropout;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, rotation: Rotation, call: ForwardCall): Tensor {
    const query = intoHeads(this.qProj.forward(x), this.#width);
    const key = intoHeads(this.kProj.forward(x), this.#width);
    const value = intoHeads(this.vProj.forward(x), this.#width);
    const attended = attention(rotate(query, rotation), rotate(key, rotation), value, call, {
      layer: this.#layer,
      dropout: this.training ? this.#dropout : 0,
    });
    return this.oProj.forward(joinHeads(attended));
  }
}

/** SwiGLU (Shazeer 2020): down(act(gate(x)) up(x)). */
class LlamaMLP extends StateModule {
  readonly gateProj: Linear;
  readonly upProj: Linear;
  readonly downProj: Linear;
  readonly #activation: ActivationName;

  constructor(config: LlamaConfig, values: InitialValues) {
    super();
    const { hiddenSize, intermediateSize, mlpBias: bias } = config;
    this.gateProj = values.linear(hiddenSize, intermediateSize, { bias });
    this.upProj = values.linear(hiddenSize, intermediateSize, { bias });
    this.downProj = values.linear(intermediateSize, hiddenSize, { bias });
    this.#activation = config.hiddenAct;
  }

  forward(x: Tensor): Tensor {
    const gate = activate(this.gateProj.forward(x), this.#activation);
    return this.downProj.forward(gate.mul(this.upProj.forward(x)));
  }
}

class LlamaDecoderLayer extends StateModule {
  readonly selfAttn: LlamaAttention;
  readonly mlp: LlamaMLP;
  readonly inputLayernorm: RMSNorm;
  readonly postAttentionLayernorm: RMSNorm;

  constructor(config: LlamaConfig, values: InitialValues, layer: number) {
    super();
    const { hiddenSize, rmsNormEps: eps } = config;
    this.selfAttn = new LlamaAttention(config, values, layer);
    this.mlp = new LlamaMLP(config, values);
    this.inputLayernorm = new RMSNorm(hiddenSize, { eps });
    this.postAttentionLayernorm = new RMSNorm(hiddenSize, { eps });
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, rotation: Rotation, call: ForwardCall): Tensor {
    const attended = x.add(this.selfAttn.forward(this.inputLayernorm.forward(x), rotation, call));
    return attended.add(this.mlp.forward(this.postAttentionLayernorm.forward(attended)));
  }
}

class LlamaModel extends StateModule {
  readonly embedTokens: Embedding;
  readonly layers: ModuleList<LlamaDecoderLayer>;
  readonly norm: RMSNorm;
  readonly #rotary: RotaryEmbedding;

  constructor(config: LlamaConfig, values: InitialValues) {
    super();
    const { vocabSize, hiddenSize, maxPositionEmbeddings } = config;
    this.embedTokens = values.embedding(vocabSize, hiddenSize, config.padTokenId);
    this.layers = new ModuleList(
      Array.from(
        { length: config.numHiddenLayers },
        (_, layer) => new LlamaDecoderLayer(config, values, layer),
      ),
    );
    this.norm = new RMSNorm(hiddenSize, { eps: config.rmsNormEps });
    const rope = ropeParametersOf(config);
    this.#rotary = new RotaryEmbedding(rope, headWidth(config), maxPositionEmbeddings);
  }

  /** Shape: inputIds i32 [B, T] -> [B, T, C]. */
  forward(inputIds: Tensor, call: ForwardCall): Tensor {
    const rotation = this.#rotary.rotationOf(positionsOf(inputIds, call));
    let x = this.embedTokens.forward(inputIds);
    for (const layer of this.layers) x = layer.forward(x, rotation, call);
    return this.norm.forward(x);
  }
}

/** Llama (Touvron et al. 2023) with a language-modelling head. B batch, T tokens, C hiddenSize, V vocabulary. */
export class LlamaForCausalLM extends PretrainedModel<LlamaConfig> {
  static readonly architecture = 'LlamaForCausalLM';
  static readonly format: ConfigFormat<LlamaConfig> = format;
  override readonly baseModelPrefix = 'model';
  readonly model: LlamaModel;
  readonly lmHead: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<LlamaConfig> = {}, options: PretrainedOptions = {}) {
    super(LlamaForCausalLM, config);
    const { hiddenSize, vocabSize, tieWordEmbeddings, initializerRange } = this.config;
    const values = new InitialValues(options, initializerRange);
    this.model = new LlamaModel(this.config, values);
    this.lmHead = values.head(
      hiddenSize,
      vocabSize,
      tieWordEmbeddings ? this.model.embedTokens : null,
    );
  }

  /** Returns logits, or the mean loss if there are labels. Shape: inputIds i32 [B, T] -> [B, T, V] or []. */
  forward(inputIds: Tensor, call: ForwardCall = {}): Tensor {
    const logits = this.lmHead.forward(this.model.forward(inputIds, call));
    return call.labels === undefined ? logits : causalLoss(logits, call.labels, call);
  }
}

function headWidth({ headDim, hiddenSize, numAttentionHeads }: LlamaConfig): number {
  return headDim ?? hiddenSize / numAttentionHeads;
}
