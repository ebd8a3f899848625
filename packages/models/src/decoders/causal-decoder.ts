import { ConfigError, type ModelDivision, type Tensor } from '@shardwise/core/extend';
import {
  colwiseParallel,
  ownDraws,
  rowwiseParallel,
  sequenceParallel,
} from '@shardwise/strategies';
import { causalOutput } from '../layers/causal-output.ts';
import { InitialValues } from '../layers/initial-values.ts';
import type { LanguageModelHead } from '../layers/language-model-head.ts';
import type { PretrainedConfig } from '../model/config-format.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import {
  type ModelKind,
  PretrainedModel,
  type PretrainedOptions,
} from '../model/pretrained-model.ts';
import { causalDivision } from './causal-division.ts';
import { DecoderModel, type DecoderSettings } from './decoder-model.ts';

/** The settings of a decoder and of its head. */
export interface CausalDecoderSettings extends DecoderSettings {
  /** The standard deviation of initial weights. */
  readonly initializerRange: number;
  /** Whether the head has the weight of the embeddings. */
  readonly tieWordEmbeddings: boolean;
  /** Logits s are bounded by this number c, as c tanh(s / c). Default: they are not. */
  readonly logitSoftcap?: number;
}

/** A decoder of Llama's family with a language-modelling head. B batch, T tokens, V vocabulary. */
export abstract class CausalDecoder<
  Config extends PretrainedConfig,
> extends PretrainedModel<Config> {
  override readonly baseModelPrefix = 'model';
  readonly model: DecoderModel;
  readonly lmHead: LanguageModelHead;
  readonly #settings: CausalDecoderSettings;

  protected constructor(
    kind: ModelKind<Config>,
    config: Partial<Config>,
    options: PretrainedOptions,
    settingsOf: (config: Config) => CausalDecoderSettings,
  ) {
    super(kind, config);
    const settings = settingsOf(this.config);
    requireHeads(kind.architecture, settings);
    const { vocabSize, tieWordEmbeddings, initializerRange, attention } = settings;
    const values = new InitialValues(options, initializerRange);
    this.model = new DecoderModel(settings, values);
    this.lmHead = values.head(attention.hiddenSize, vocabSize, {
      tied: tieWordEmbeddings ? this.model.embedTokens : null,
      softcap: settings.logitSoftcap,
    });
    this.#settings = settings;
  }

  /** Returns logits, or the mean loss if there are labels. Shape: inputIds i32 [B, T] -> [B, T, V] or []. */
  forward(inputIds: Tensor, call: ForwardCall = {}): Tensor {
    return causalOutput(this.model.forward(inputIds, call), this.lmHead, call);
  }

  protected override attentionFeatures(): number {
    const { layers, attention } = this.#settings;
    return layers * attention.heads * attention.headWidth;
  }

  override division(): ModelDivision {
    const { attention, vocabSize, experts } = this.#settings;
    const { heads, keyHeads, headNorm } = attention;
    return causalDivision({
      layers: 'model.layers',
      embedding: 'model.embed_tokens',
      vocabSize,
      styles: {
        self_attn: ownDraws(),
        'self_attn.q_proj': colwiseParallel({ heads: [heads] }),
        'self_attn.k_proj': colwiseParallel({ heads: [keyHeads] }),
        'self_attn.v_proj': colwiseParallel({ heads: [keyHeads] }),
        'self_attn.o_proj': rowwiseParallel(),
        // Each rank has other heads, to which it applies the same norm.
        ...(headNorm === undefined
          ? {}
          : {
              'self_attn.q_norm': sequenceParallel({ dim: 1 }),
              'self_attn.k_norm': sequenceParallel({ dim: 1 }),
            }),
        // Experts are not cut: expertParallel() divides them.
        ...(experts === undefined
          ? {
              'mlp.gate_proj': colwiseParallel(),
              'mlp.up_proj': colwiseParallel(),
              'mlp.down_proj': rowwiseParallel(),
            }
          : {}),
      },
    });
  }
}

/** Throws ConfigError for numbers that do not divide each other. */
function requireHeads(model: string, { attention }: CausalDecoderSettings): void {
  const { heads, keyHeads, headWidth } = attention;
  if (heads % keyHeads === 0 && Number.isInteger(headWidth / 2)) return;
  throw new ConfigError(
    {
      asked: `${model} with ${heads} heads of width ${headWidth} over ${keyHeads} heads of keys`,
      found: 'heads that do not divide, or an odd width, of which rotary positions turn pairs',
      todo: 'Make num_attention_heads a multiple of num_key_value_heads, and head_dim even',
    },
    { heads, keyHeads, headWidth },
  );
}
