import {
  type CheckpointOptions,
  Embedding,
  Generator,
  MixtureOfExperts,
  type Module,
  option,
  type OptionRules,
  type Tensor,
} from '@shardwise/core/extend';
import { columnsOf } from '../quantized/blocked-rows.ts';
import { isKeptInBlocks } from '../quantized/kept-in-blocks.ts';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import type { ForwardCall } from './forward-call.ts';
import {
  completeConfig,
  type ConfigFormat,
  configToJson,
  type PretrainedConfig,
} from './config-format.ts';
import { GradientCheckpointing } from './gradient-checkpointing.ts';
import type { StackedTensor } from './stacked-tensor.ts';
import { StateModule } from './state-module.ts';

/** Options of the constructors of models. */
export interface PretrainedOptions {
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
  /** `zeros` draws nothing, for a model whose weights are read from a file. Default: `random`. */
  readonly initialValues?: 'random' | 'zeros';
}

export const pretrainedRules: OptionRules<PretrainedOptions> = {
  generator: option.instanceOf(Generator),
  initialValues: option.oneOf('random', 'zeros'),
};

/** The class of a model with what it says of itself. */
export interface ModelClass<Config extends PretrainedConfig, Model extends PretrainedModel> {
  new (config: Partial<Config>, options?: PretrainedOptions): Model;
  /** The name of the class in `architectures` of config.json. */
  readonly architecture: string;
  readonly format: ConfigFormat<Config>;
}

/** What a class is, for the constructor of `PretrainedModel`. */
export interface ModelKind<Config> {
  readonly architecture: string;
  readonly format: ConfigFormat<Config>;
}

/**
 * A model with the names, the layouts and the config of Hugging Face. Members are in camelCase, and `stateName` makes
 * the names of its state dict of them.
 */
export abstract class PretrainedModel<
  Config extends PretrainedConfig = PretrainedConfig,
> extends StateModule {
  readonly config: Config;
  /** The name of the class in `architectures` of config.json. */
  readonly architecture: string;
  /** The `model_type` of config.json. */
  readonly modelType: string;
  /**
   * The member that is the model without its head. Files of the model without a head have names without it. '' if there
   * is none.
   */
  readonly baseModelPrefix: string = '';
  readonly #checkpointing = new GradientCheckpointing();

  /** Completes the config with Hugging Face's defaults. Throws ConfigError for what the class cannot compute. */
  constructor({ architecture, format }: ModelKind<Config>, config: Partial<Config>) {
    super();
    this.architecture = architecture;
    this.modelType = format.modelType;
    this.config = completeConfig(architecture, format, config);
  }

  /**
   * Returns what the head computes, such as logits [B, T, V]. With `labels`, it returns the mean loss, which is a
   * scalar. So the model works with every strategy.
   */
  abstract forward(inputs: Tensor, call?: ForwardCall): Tensor;

  /**
   * The FLOPs of products for one token of a row of this length in a forward pass. Attention counts all tokens of the
   * row, even if a mask hides some. A training step takes three times as many.
   */
  flopsPerToken(contextLength: number): number {
    const products = this.namedModules().reduce(
      (sum, [, module]) => sum + weightsPerToken(module),
      0,
    );
    return 2 * products + 4 * contextLength * this.attentionFeatures();
  }

  /** The number of features of all heads of all layers that attend to the tokens of a row. Default: 0. */
  protected attentionFeatures(): number {
    return 0;
  }

  /**
   * Has the backward pass compute the activations inside each layer again, so that only its result is kept
   * (transformers' gradient_checkpointing_enable). With `pages`, these results are off the device meanwhile. Call it before
   * `parallelize`. Passes that record no gradients are as before.
   */
  gradientCheckpointingEnable(options: CheckpointOptions = {}): this {
    this.#checkpointing.enable(this, options);
    return this;
  }

  /** Keeps all activations again. */
  gradientCheckpointingDisable(): this {
    this.#checkpointing.disable();
    return this;
  }

  /** The name here of a tensor of another library's files. Default: the same. */
  nameOfStored(name: string): string {
    return name;
  }

  /** The parameters that files have in parts. Default: none. */
  stackedTensors(): readonly StackedTensor[] {
    return [];
  }

  /** Returns the contents of config.json. */
  configJson(): Record<string, unknown> {
    return configToJson(this.config, this);
  }
}

/** The number of weights of a module itself that multiply each token. */
function weightsPerToken(module: Module): number {
  if (module instanceof MixtureOfExperts) {
    const { experts, gate } = module;
    const all = experts.parameters().reduce((sum, { numel }) => sum + numel, 0);
    return (all * (gate.k ?? 0)) / (experts.up.shape[0] ?? 1);
  }
  if (module instanceof Embedding) return 0;
  if (module instanceof QuantizedLinear) return module.outFeatures * module.inFeatures;
  if (isKeptInBlocks(module)) return (module.weight.shape[0] ?? 0) * columnsOf(module);
  const matrices = module.ownParameters().filter(([, { ndim }]) => ndim === 2);
  return matrices.reduce((sum, [, { numel }]) => sum + numel, 0);
}
