import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import type { MixedPrecision } from './mixed-precision.ts';

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
