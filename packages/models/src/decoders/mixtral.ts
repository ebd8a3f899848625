import { MixtureOfExperts, RMSNorm, type Tensor, topKGate } from '@shardwise/core/extend';
import { z } from 'zod';
import type { InitialValues } from '../layers/initial-values.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { ForwardCall } from '../model/forward-call.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { type StackedTensor, stackedExperts } from '../model/stacked-tensor.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';
import { loadBalancingLoss, RoutingLog } from './load-balancing.ts';

/** Hugging Face's MixtralConfig. */
export interface MixtralConfig extends PretrainedConfig, RopeConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** The width of an expert. */
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  /** The number of heads of keys and values. Null: numAttentionHeads. */
  readonly numKeyValueHeads: number | null;
  /** The width of a head. Null: hiddenSize / numAttentionHeads. */
  readonly headDim: number | null;
  /** Experts are SwiGLU. */
  readonly hiddenAct: 'silu' | 'swish';
  readonly initializerRange: number;
  readonly rmsNormEps: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  readonly tieWordEmbeddings: boolean;
  /** The number of keys that a query sees. Null: all. */
  readonly slidingWindow: number | null;
  readonly attentionDropout: number;
  /** The number of experts of each token. */
  readonly numExpertsPerTok: number;
  /** The number of experts. */
  readonly numLocalExperts: number;
  /** Noise of the input in training, which this class does not have. */
  readonly routerJitterNoise: 0;
  /**
   * Whether losses contain routerAuxLossCoef times a loss that is small if tokens are spread evenly over the experts.
   * Logits are the same.
   */
  readonly outputRouterLogits: boolean;
  readonly routerAuxLossCoef: number;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(32000),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(14336),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(8),
  headDim: rule.evenSize.nullable().default(null),
  hiddenAct: z.enum(['silu', 'swish']).default('silu'),
  maxPositionEmbeddings: rule.size.default(131072),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-5),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  slidingWindow: rule.size.nullable().default(null),
  attentionDropout: rule.probability.default(0),
  numExpertsPerTok: rule.size.default(2),
  numLocalExperts: rule.size.default(8),
  routerJitterNoise: z.literal(0).default(0),
  outputRouterLogits: z.boolean().default(false),
  routerAuxLossCoef: rule.nonNegative.default(0.001),
  ...ropeShape,
  rest: rule.rest.default({}),
});

/** The experts of a layer with the names of Mixtral's files, in which the router is `gate`. */
class MixtralSparseMoeBlock extends MixtureOfExperts {
  constructor(config: MixtralConfig, values: InitialValues, log: RoutingLog) {
    const { hiddenSize, intermediateSize, numLocalExperts: count } = config;
    const gate = log.observed(topKGate({ k: config.numExpertsPerTok, normalize: 'chosen' }));
    super(hiddenSize, intermediateSize, count, { gate, activation: 'swiglu' });
    this.router.weight = values.weight([count, hiddenSize]);
    this.experts.up = values.weight([count, hiddenSize, intermediateSize]);
    this.experts.gate = values.weight([count, hiddenSize, intermediateSize]);
    this.experts.down = values.weight([count, intermediateSize, hiddenSize]);
  }

  protected override nameOf(field: string): string {
    return field === 'router' ? 'gate' : super.nameOf(field);
  }
}

/** Mixtral (Jiang et al. 2024) with a language-modelling head: a Mistral whose perceptrons are mixtures of experts. */
export class MixtralForCausalLM extends CausalDecoder<MixtralConfig> {
  static readonly architecture: string = 'MixtralForCausalLM';
  static readonly format: ConfigFormat<MixtralConfig> = {
    modelType: 'mixtral',
    schema,
  };
  readonly #log: RoutingLog;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<MixtralConfig> = {}, options: PretrainedOptions = {}) {
    const log = new RoutingLog();
    super(new.target, config, options, (complete) => settingsOf(complete, log));
    this.#log = log;
  }

  override forward(inputIds: Tensor, call: ForwardCall = {}): Tensor {
    const { outputRouterLogits, routerAuxLossCoef } = this.config;
    const hasLabels = (call.labels ?? call.rowPart?.labels) !== undefined;
    if (!outputRouterLogits || !hasLabels) return super.forward(inputIds, call);
    const { result, routings } = this.#log.during(() => super.forward(inputIds, call));
    return result.add(loadBalancingLoss(routings, call.attentionMask).mul(routerAuxLossCoef));
  }

  /** Files have a tensor for each expert, as a Linear has it: [out, in]. */
  override stackedTensors(): readonly StackedTensor[] {
    const { numHiddenLayers, numLocalExperts } = this.config;
    return Array.from({ length: numHiddenLayers }, (_, layer) => {
      const experts = `model.layers.${layer}.block_sparse_moe.experts`;
      return stackedExperts(experts, numLocalExperts, { gate: 'w1', up: 'w3', down: 'w2' });
    }).flat();
  }
}

function settingsOf(config: MixtralConfig, log: RoutingLog): CausalDecoderSettings {
  const { hiddenSize, numAttentionHeads: heads } = config;
  return {
    ...config,
    layers: config.numHiddenLayers,
    attention: {
      hiddenSize,
      heads,
      keyHeads: config.numKeyValueHeads ?? heads,
      headWidth: config.headDim ?? hiddenSize / heads,
      bias: false,
      outputBias: false,
      dropout: config.attentionDropout,
    },
    windowOf: () => config.slidingWindow ?? undefined,
    rope: ropeParametersOf(config, 1e6),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenAct,
      bias: false,
    },
    experts: (values) => new MixtralSparseMoeBlock(config, values, log),
    norm: (size) => new RMSNorm(size, { eps: config.rmsNormEps }),
  };
}
