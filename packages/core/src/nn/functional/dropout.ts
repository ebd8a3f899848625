import { random } from '../../graph/ops/leaf.ts';
import { nextKey } from '../../random/keys.ts';
import { full } from '../../tensor/create.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError, describeValue } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { composed } from '../../realize/pending/small-values.ts';

/**
 * Sets elements to 0 with `probability` and multiplies the others by 1 / (1 - probability) (Srivastava et al. 2014).
 * The key, which is i32 [2], determines which elements are dropped. Default: the next key of this rank. In forward passes
 * of parallel models it differs between parts of the batch.
 * It always drops, unlike PyTorch's with `training=False`: call it only in training, or use nn.Dropout.
 * Shape: x N -> N. Throws ConfigError for a probability outside [0, 1], and for a key that is no tensor.
 */
export function dropout(x: Tensor, probability = 0.5, key?: Tensor): Tensor {
  checkProbability(probability);
  if (key !== undefined && !(key instanceof Tensor)) throw noKey(key);
  if (probability === 0) return x;
  if (probability === 1) return x.mul(0);
  return composed(() => {
    const bits = new Tensor(random((key ?? nextKey()).node, x.shape));
    const threshold = Math.min(Math.round(probability * 2 ** 32), 2 ** 32 - 1) - 2 ** 31;
    const factor = bits.ge(threshold).where(full([], 1 / (1 - probability), x.dtype), 0);
    return x.mul(factor);
  });
}

/** The error for a third argument as PyTorch's `training`. */
function noKey(key: unknown): ConfigError {
  return new ConfigError({
    asked: `dropout with key ${describeValue(key)}`,
    found: 'no tensor, and dropout has no argument `training`',
    todo: 'Write this.training ? dropout(x, probability) : x, or use nn.Dropout',
  });
}

const probabilityRules: OptionRules<{ probability: number }> = {
  probability: option.required(option.fraction),
};

/** Throws ConfigError for a probability outside [0, 1]. */
export function checkProbability(probability: number): void {
  checkOptions('dropout', { probability }, probabilityRules);
}
