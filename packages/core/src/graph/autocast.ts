import { currentScope, within } from '../ambient.ts';
import { checkOptions } from '../base/check-options.ts';
import type { HalfDType } from '../spec/dtype.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Options of `autocast`. */
export interface AutocastOptions {
  /** The dtype to which operands of products are rounded. Default: bf16. */
  readonly dtype?: HalfDType;
  /** If false, ops use the dtypes of their inputs, also inside another autocast. Default: true. */
  readonly enabled?: boolean;
}

const autocastRules: OptionRules<AutocastOptions> = {
  dtype: option.oneOf('bf16', 'f16'),
  enabled: option.flag,
};

/**
 * Mixed precision: products that `body` builds round their operands to 16 bits and sum in f32, and norms, softmax,
 * sums and losses are f32 (torch.autocast). Tensors stay as they are. Backward passes compute in the dtypes of the
 * forward pass, wherever they are called. Throws ConfigError for a body that returns a promise.
 */
export function autocast<T>(options: AutocastOptions, body: () => T): T {
  checkOptions('autocast', options, autocastRules);
  const { dtype = 'bf16', enabled = true } = options;
  return within('autocast', { autocast: enabled ? dtype : null }, body);
}

/**
 * Ops that `body` builds take their inputs in the dtypes that they have. This is for gradients, for updates, and for
 * the ops that composites are replaced by when a plan is made.
 */
export function withoutAutocast<T>(body: () => T): T {
  return within('a function of the library', { autocast: null }, body);
}

/** The dtype to which operands of products are rounded now. Null outside of autocast. */
export function autocastDType(): HalfDType | null {
  return currentScope().autocast;
}
