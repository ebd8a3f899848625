import type { Generator, Tensor } from '@shardwise/core/extend';
import type { ForwardCall } from './forward-call.ts';
import {
  completeConfig,
  type ConfigFormat,
  configToJson,
  type PretrainedConfig,
} from './config-format.ts';
import type { StackedTensor } from './stacked-tensor.ts';
import { StateModule } from './state-module.ts';

/** Options of the constructors of models. */
export interface PretrainedOptions {
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
  /** `zeros` draws nothing, for a model whose weights are read from a file. Default: `random`. */
  readonly initialValues?: 'random' | 'zeros';
}

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

  /** The parameters that files have in parts. Default: none. */
  stackedTensors(): readonly StackedTensor[] {
    return [];
  }

  /** Returns the contents of config.json. */
  configJson(): Record<string, unknown> {
    return configToJson(this.config, this);
  }
}
