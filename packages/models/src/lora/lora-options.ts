import { Generator, option, type OptionRules } from '@shardwise/core/extend';

/** Options of `addLora`. The defaults are PEFT's. */
export interface LoraOptions {
  /** The rank r of the update B A. Default: 8. */
  readonly rank?: number;
  /** The update is multiplied by alpha / rank. Default: 8. */
  readonly alpha?: number;
  /**
   * The layers that get an adapter: names such as 'q_proj', which all layers of this name or with a path that ends in
   * it have, or 'all-linear' for all linear layers but the one that makes the logits.
   */
  readonly targetModules: readonly string[] | 'all-linear';
  /** The probability with which elements of an adapter's input are dropped in training. Default: 0. */
  readonly dropout?: number;
  /** Multiplies by alpha / sqrt(rank) instead (rank-stabilised LoRA, Kalajdzievski 2023). Default: false. */
  readonly useRslora?: boolean;
  /** Also trains the length of each row of a weight (DoRA, Liu et al. 2024). Default: false. */
  readonly useDora?: boolean;
  /** Modules that train as a whole and are saved with the adapter, such as a new classifier. Default: none. */
  readonly modulesToSave?: readonly string[];
  /** The source of the initial values of A. Default: the rank's generator. */
  readonly generator?: Generator;
}

export const loraRules: OptionRules<LoraOptions> = {
  rank: option.integer(1),
  alpha: option.positive,
  targetModules: option.required(
    option.either(option.listOf(option.nonEmptyText), option.oneOf('all-linear')),
  ),
  dropout: option.fraction,
  useRslora: option.flag,
  useDora: option.flag,
  modulesToSave: option.listOf(option.nonEmptyText),
  generator: option.instanceOf(Generator),
};

/** What an adapter's layers have in common. */
export interface LoraSettings {
  readonly rank: number;
  readonly alpha: number;
  readonly dropout: number;
  readonly useRslora: boolean;
  readonly useDora: boolean;
}

/** The factor of the update B A. */
export function scalingOf({ rank, alpha, useRslora }: LoraSettings): number {
  return alpha / (useRslora ? Math.sqrt(rank) : rank);
}
