import { checkOptions } from '../options/check-options.ts';
import { flag, oneOf, type OptionRules, required } from '../options/option-rules.ts';
import type { MixedPrecision } from './mixed-precision.ts';

const rules: OptionRules<MixedPrecision> = {
  parameterDtype: required(oneOf('f16', 'bf16')),
  reduceDtype: oneOf('f16', 'bf16', 'f32'),
  castForwardInputs: flag,
  outputDtype: oneOf('f16', 'bf16', 'f32'),
};

/** Throws ConfigError for options out of range. */
export function checkMixedPrecision(policy: MixedPrecision | undefined): void {
  if (policy !== undefined) checkOptions('mixedPrecision', policy, rules);
}
