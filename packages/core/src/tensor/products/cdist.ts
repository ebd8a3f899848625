import { unsqueeze } from '../../graph/ops/movement.ts';
import { widened } from '../../graph/ops/precision.ts';
import { shapeFault } from '../../graph/infer-checks.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { combine } from '../arithmetic.ts';
import { requireTensors } from '../check-arguments.ts';
import { norm } from '../reduce/norm.ts';
import { Tensor } from '../tensor.ts';

/** Options of `cdist`. */
export interface CdistOptions {
  /** The exponent of the norm. Default: 2. */
  readonly p?: number;
}

const cdistRules: OptionRules<CdistOptions> = { p: option.nonNegative };

/**
 * torch.cdist: the distance between each row of a and each row of b. Batch dims broadcast. If a distance is 0, its
 * gradient is 0.
 * Shape: a [.., P, M], b [.., R, M] -> [.., P, R].
 */
export function cdist(a: Tensor, b: Tensor, options: CdistOptions = {}): Tensor {
  requireTensors('cdist', { a, b });
  checkOptions('cdist', options, cdistRules);
  const fits = a.ndim >= 2 && b.ndim >= 2 && a.shape.at(-1) === b.shape.at(-1);
  if (!fits) {
    throw shapeFault(
      'cdist',
      [a, b],
      'rows of different lengths, or no rows',
      'Use [.., P, M] and [.., R, M]',
    );
  }
  const way = combine(
    'sub',
    unsqueeze(widened(a.node), a.ndim - 1),
    unsqueeze(widened(b.node), b.ndim - 2),
  );
  const { p = 2 } = options;
  return new Tensor(norm(way, -1, { p }));
}
