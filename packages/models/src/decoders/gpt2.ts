import {
  ConfigError,
  Dropout,
  type Embedding,
  LayerNorm,
  type ModelDivision,
  ModuleList,
  type Tensor,
} from '@shardwise/core/extend';
import { colwiseParallel, ownDraws, rowwiseParallel } from '@shardwise/strategies';
import { z } from 'zod';
import { activate, type ActivationName, activationNames } from '../layers/activations.ts';
import { attention, intoHeads, joinHeads } from '../layers/attention.ts';
import { causalOutput } from '../layers/causal-output.ts';
import { Conv1D } from '../layers/conv1d.ts';
import { InitialValues } from '../layers/initial-values.ts';
import type { LanguageModelHead } from '../layers/language-model-head.ts';
import { positionsOf } from '../layers/positions.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import { PretrainedModel, type PretrainedOptions } from '../model/pretrained-model.ts';
import { StateModule } from '../model/state-module.ts';
import { causalDivision } from './causal-division.ts';

/** Hugging Face's GPT2Config. */
export interface GPT2Config extends PretrainedConfig {
  readonly vocabSize: number;
  /** The number of positions. */
  readonly nPositions: number;
  /** The number of channels. */
  readonly nEmbd: number;
  readonly nLayer: number;
  readonly nHead: number;
  /** The width of the perceptrons. Default: 4 nEmbd. */
  readonly nInner: number | null;
  readonly activationFunction: ActivationName;
  readonly residPdrop: number;
  readonly embdPdrop: number;
  readonly attnPdrop: number;
  readonly layerNormEpsilon: number;
  readonly initializerRange: number;
  /** Whether scores are divided by sqrt(D). */
  readonly scaleAttnWeights: boolean;
  /** Whether scores are also divided by the number of the layer, from 1. */
  readonly scaleAttnByInverseLayerIdx: boolean;
  /** The order of roundings in 16 bits, which this class does not change. */
  readonly reorderAndUpcastAttn: boolean;
  readonly tieWordEmbeddings: boolean;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(50257),
  nPositions: rule.size.default(1024),
  nEmbd: rule.size.default(768),
  nLayer: rule.size.default(12),
  nHead: rule.size.default(12),
  nInner: rule.size.nullable().default(null),
  activationFunction: z.enum(activationNames).default('gelu_new'),
  residPdrop: rule.probability.default(0.1),
  embdPdrop: rule.probability.default(0.1),
  attnPdrop: rule.probability.default(0.1),
  layerNormEpsilon: rule.nonNegative.default(1e-5),
  initializerRange: rule.nonNegative.default(0.02),
  scaleAttnWeights: z.boolean().default(true),
  scaleAttnByInverseLayerIdx: z.boolean().default(false),
  reorderAndUpcastAttn: z.boolean().default(false),
  tieWordEmbeddings: z.boolean().default(true),
  rest: rule.rest.default({}),
});

const format: ConfigFormat<GPT2Config> = {
  modelType: 'gpt2',
  schema,
  // The length of the context is n_positions. A summary is made by classes with other heads.
  neutralKeys: [
    'n_ctx',
    'summary_type',
    'summary_use_proj',
    'summary_activation',
    'summary_proj_to_labels',
    'summary_first_dropout',
  ],
};

class GPT2Attention extends StateModule {
  readonly cAttn: Conv1D;
  readonly cProj: Conv1D;
  readonly #layer: number;
  readonly #scale: number;
  readonly #width: number;
  readonly #dropout: number;

  constructor(config: GPT2Config, values: InitialValues, layer: number) {
    super();
    const { nEmbd, nHead, nLayer, initializerRange } = config;
    this.cAttn = new Conv1D(values, nEmbd, 3 * nEmbd);
    this.cProj = new Conv1D(values, nEmbd, nEmbd, initializerRange / Math.sqrt(2 * nLayer));
    this.#layer = layer;
    this.#width = nEmbd / nHead;
    const byWidth = config.scaleAttnWeights ? 1 / Math.sqrt(this.#width) : 1;
    this.#scale = config.scaleAttnByInverseLayerIdx ? byWidth / (layer + 1) : byWidth;
    this.#dropout = config.attnPdrop;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: ForwardCall): Tensor {
    // A rank of tensor parallelism has a part of the heads, so sizes follow from the product.
    const heads = this.cAttn.forward(x).chunk(3, -1);
    const [query, key, value] = heads.map((each) => intoHeads(each, this.#width));
    if (query === undefined || key === undefined || value === undefined) return x;
    const attended = attention(query, key, value, call, {
      layer: this.#layer,
      scale: this.#scale,
      dropout: this.training ? this.#dropout : 0,
    });
    return this.cProj.forward(joinHeads(attended));
  }
}

class GPT2MLP extends StateModule {
  readonly cFc: Conv1D;
  readonly cProj: Conv1D;
  readonly #activation: ActivationName;

  constructor(config: GPT2Config, values: InitialValues) {
    super();
    const { nEmbd, nInner, nLayer, initializerRange } = config;
    const inner = nInner ?? 4 * nEmbd;
    this.cFc = new Conv1D(values, nEmbd, inner);
    this.cProj = new Conv1D(values, inner, nEmbd, initializerRange / Math.sqrt(2 * nLayer));
    this.#activation = config.activationFunction;
  }

  forward(x: Tensor): Tensor {
    return this.cProj.forward(activate(this.cFc.forward(x), this.#activation));
  }
}

class GPT2Block extends StateModule {
  readonly ln_1: LayerNorm;
  readonly attn: GPT2Attention;
  readonly ln_2: LayerNorm;
  readonly mlp: GPT2MLP;
  readonly dropout: Dropout;

  constructor(config: GPT2Config, values: InitialValues, layer: number) {
    super();
    const { nEmbd, layerNormEpsilon: eps } = config;
    this.ln_1 = new LayerNorm(nEmbd, { eps });
    this.attn = new GPT2Attention(config, values, layer);
    this.ln_2 = new LayerNorm(nEmbd, { eps });
    this.mlp = new GPT2MLP(config, values);
    this.dropout = new Dropout(config.residPdrop);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: ForwardCall): Tensor {
    const attended = x.add(this.dropout.forward(this.attn.forward(this.ln_1.forward(x), call)));
    return attended.add(this.dropout.forward(this.mlp.forward(this.ln_2.forward(attended))));
  }
}

class GPT2Model extends StateModule {
  readonly wte: Embedding;
  readonly wpe: Embedding;
  readonly drop: Dropout;
  readonly h: ModuleList<GPT2Block>;
  readonly lnF: LayerNorm;

  constructor(config: GPT2Config, values: InitialValues) {
    super();
    const { vocabSize, nPositions, nEmbd, nLayer, layerNormEpsilon: eps } = config;
    this.wte = values.embedding(vocabSize, nEmbd);
    this.wpe = values.embedding(nPositions, nEmbd);
    this.drop = new Dropout(config.embdPdrop);
    this.h = new ModuleList(
      Array.from({ length: nLayer }, (_, layer) => new GPT2Block(config, values, layer)),
    );
    this.lnF = new LayerNorm(nEmbd, { eps });
  }

  /** Shape: inputIds i32 [B, T] -> [B, T, C]. */
  forward(inputIds: Tensor, call: ForwardCall): Tensor {
    const positions = this.wpe.forward(positionsOf(inputIds, call));
    let x = this.drop.forward(this.wte.forward(inputIds).add(positions));
    for (const block of this.h) x = block.forward(x, call);
    return this.lnF.forward(x);
  }
}

/** GPT-2 (Radford et al. 2019) with a language-modelling head. Letters: B batch, T tokens, C channels, V vocabulary. */
export class GPT2LMHeadModel extends PretrainedModel<GPT2Config> {
  static readonly architecture: string = 'GPT2LMHeadModel';
  static readonly format: ConfigFormat<GPT2Config> = format;
  override readonly baseModelPrefix = 'transformer';
  readonly transformer: GPT2Model;
  readonly lmHead: LanguageModelHead;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<GPT2Config> = {}, options: PretrainedOptions = {}) {
    super(new.target, config);
    const { nEmbd, nHead, vocabSize, tieWordEmbeddings, initializerRange } = this.config;
    if (nEmbd % nHead !== 0) throw oddHeads(nEmbd, nHead);
    const values = new InitialValues(options, initializerRange);
    this.transformer = new GPT2Model(this.config, values);
    const tied = tieWordEmbeddings ? this.transformer.wte : null;
    this.lmHead = values.head(nEmbd, vocabSize, { tied });
  }

  /** Returns logits, or the mean loss if there are labels. Shape: inputIds i32 [B, T] -> [B, T, V] or []. */
  forward(inputIds: Tensor, call: ForwardCall = {}): Tensor {
    return causalOutput(this.transformer.forward(inputIds, call), this.lmHead, call);
  }

  protected override attentionFeatures(): number {
    const { nLayer, nEmbd } = this.config;
    return nLayer * nEmbd;
  }

  override division(): ModelDivision {
    const { nHead, vocabSize } = this.config;
    return causalDivision({
      layers: 'transformer.h',
      embedding: 'transformer.wte',
      vocabSize,
      styles: {
        attn: ownDraws(),
        'attn.c_attn': colwiseParallel({ transposed: true, heads: [nHead, nHead, nHead] }),
        'attn.c_proj': rowwiseParallel({ transposed: true }),
        'mlp.c_fc': colwiseParallel({ transposed: true }),
        'mlp.c_proj': rowwiseParallel({ transposed: true }),
      },
    });
  }
}

function oddHeads(nEmbd: number, nHead: number): ConfigError {
  return new ConfigError(
    {
      asked: `GPT2LMHeadModel with n_embd ${nEmbd} and n_head ${nHead}`,
      found: 'heads that do not divide the channels',
      todo: 'Make n_embd a multiple of n_head',
    },
    { nEmbd, nHead },
  );
}
