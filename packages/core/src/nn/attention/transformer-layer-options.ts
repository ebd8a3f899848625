import { Generator } from '../../random/generator.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { checkOptions, withDefaults } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** Options of `TransformerEncoderLayer` and `TransformerDecoderLayer`. */
export interface TransformerLayerOptions {
  /** The width between the two linear layers. Default: 2048. */
  readonly dimFeedforward?: number;
  /** The dropout of attention weights, and of the result of each part of the layer. Default: 0.1. */
  readonly dropout?: number;
  /** The activation between the two linear layers. Default: relu. */
  readonly activation?: 'relu' | 'gelu';
  /** The eps of the layer norms. Default: 1e-5. */
  readonly layerNormEps?: number;
  /** Whether each part normalises its input instead of its result. Default: false. */
  readonly normFirst?: boolean;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

const transformerRules: OptionRules<TransformerLayerOptions> = {
  dimFeedforward: option.integer(1),
  dropout: option.fraction,
  activation: option.oneOf('relu', 'gelu'),
  layerNormEps: option.nonNegative,
  normFirst: option.flag,
  generator: option.instanceOf(Generator),
};

/** Completes the options by their defaults. Throws ConfigError. */
export function transformerSettings(
  layer: string,
  options: TransformerLayerOptions,
): Required<TransformerLayerOptions> {
  checkOptions(layer, options, transformerRules);
  const defaults: Required<TransformerLayerOptions> = {
    dimFeedforward: 2048,
    dropout: 0.1,
    activation: 'relu',
    layerNormEps: 1e-5,
    normFirst: false,
    generator: options.generator ?? defaultGenerator(),
  };
  return withDefaults(defaults, options);
}
