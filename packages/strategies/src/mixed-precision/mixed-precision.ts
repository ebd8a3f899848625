import { checkOptions, type LowPrecision, option, type OptionRules } from '@shardwise/core/extend';

/** As MixedPrecisionPolicy of PyTorch's fully_shard, and DeepSpeed's fp16 and bf16. */
export interface MixedPrecision {
  /**
   * In which ranks store and collect parameters for forward and backward. Each rank keeps an f32
   * part beside it, which the optimizer updates. Sums and products are computed in f32.
   */
  readonly parameterDtype: 'f16' | 'bf16';
  /** In which gradients are reduced over ranks, and kept. Default: parameterDtype. */
  readonly reduceDtype?: 'f16' | 'bf16' | 'f32';
  /**
   * Whether floating-point inputs of the model's forward, and of each unit's, are converted to
   * parameterDtype, so that activations take its bytes and each operation's result is rounded to it,
   * as PyTorch does by default. Default: false, and activations are f32.
   */
  readonly castForwardInputs?: boolean;
  /** To what floating-point results of the model's forward are converted. Default: as they were computed. */
  readonly outputDtype?: 'f16' | 'bf16' | 'f32';
}

/** The same as a plan has it; undefined without mixed precision. */
export function lowPrecisionOf(policy: MixedPrecision | undefined): LowPrecision | undefined {
  if (policy === undefined) return undefined;
  const { parameterDtype, reduceDtype = parameterDtype, castForwardInputs, outputDtype } = policy;
  return {
    parameterDtype,
    gradientDtype: reduceDtype,
    ...(castForwardInputs === undefined ? {} : { castForwardInputs }),
    ...(outputDtype === undefined ? {} : { outputDtype }),
  };
}

const rules: OptionRules<MixedPrecision> = {
  parameterDtype: option.required(option.oneOf('f16', 'bf16')),
  reduceDtype: option.oneOf('f16', 'bf16', 'f32'),
  castForwardInputs: option.flag,
  outputDtype: option.oneOf('f16', 'bf16', 'f32'),
};

/** Throws ConfigError for options out of range. */
export function checkMixedPrecision(policy: MixedPrecision | undefined): void {
  if (policy !== undefined) checkOptions('mixedPrecision', policy, rules);
}
