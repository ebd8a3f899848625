import { composed } from '../../realize/pending/small-values.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { reduceLosses, type Reduction } from './reduction.ts';
import { requireSameShape } from './same-shape.ts';
import { widened } from './widened.ts';

/** Options of `klDiv`. */
export interface KlDivOptions {
  /**
   * How losses are combined. `mean` (the default, as in PyTorch) is over all elements. `batchMean` is over the first
   * dim alone. If each item of the first dim is one distribution, it is the divergence by its definition.
   */
  readonly reduction?: Reduction | 'batchMean';
  /** Whether the target contains log-probabilities, too. Default: false, which means probabilities. */
  readonly logTarget?: boolean;
}

export const klDivRules: OptionRules<KlDivOptions> = {
  reduction: option.oneOf('mean', 'sum', 'none', 'batchMean'),
  logTarget: option.flag,
};

/**
 * torch.nn.functional.kl_div: the Kullback-Leibler divergence of the target from log-probabilities, target (log target
 * - input).
 * Shape: input N, target N -> [], or N for reduction 'none'.
 */
export function klDiv(input: Tensor, target: Tensor, options: KlDivOptions = {}): Tensor {
  checkOptions('klDiv', options, klDivRules);
  requireSameShape('klDiv', input, target);
  const { reduction = 'mean', logTarget = false } = options;
  if (reduction === 'batchMean' && input.ndim === 0) throw noBatch();
  return composed(() => {
    const [wide, wanted] = [widened(input), widened(target)];
    const losses = logTarget
      ? wanted.exp().mul(wanted.sub(wide))
      : xLogX(wanted).sub(wanted.mul(wide));
    if (reduction !== 'batchMean') return reduceLosses(losses, reduction);
    return losses.sum().div(sizeAt(input.shape, 0));
  });
}

/** x log x, which is 0 at 0. Shape: N -> N. */
function xLogX(x: Tensor): Tensor {
  return x.mul(x.eq(0).where(1, x).log());
}

function noBatch(): ShapeError {
  return new ShapeError({
    asked: "klDiv with reduction 'batchMean' of a scalar",
    found: 'no dim of a batch',
    todo: "Use reduction 'sum'",
  });
}
