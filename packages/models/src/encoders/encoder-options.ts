import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { pretrainedRules, type PretrainedOptions } from '../model/pretrained-model.ts';

/** Options of an encoder without a head. */
export interface EncoderOptions extends PretrainedOptions {
  /** Whether there is a pooler. Default: true. */
  readonly addPoolingLayer?: boolean;
}

const rules: OptionRules<EncoderOptions> = { ...pretrainedRules, addPoolingLayer: option.flag };

/** Separates the option of the pooler from those of initial values. Throws ConfigError for options of other names. */
export function encoderOptions(
  model: string,
  options: EncoderOptions,
): { readonly addPoolingLayer: boolean; readonly initial: PretrainedOptions } {
  checkOptions(model, options, rules);
  const { addPoolingLayer = true, ...initial } = options;
  return { addPoolingLayer, initial };
}
