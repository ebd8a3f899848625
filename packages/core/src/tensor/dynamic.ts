import { CallSite, placeOf } from '../graph/call-site.ts';
import { formatShape, normalizeDim, sizeAt } from '../base/shape.ts';
import { checkOptions } from '../base/check-options.ts';
import { ConfigError, ShapeError, TensorStateError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireTensors } from './check-arguments.ts';
import type { Tensor } from './tensor.ts';

/** Options of `dynamic`. */
export interface DynamicOptions {
  /**
   * The largest value of the size in any run. Memory is planned for it. A run does not touch memory that it
   * does not need.
   */
  readonly max: number;
}

const dynamicRules: OptionRules<DynamicOptions> = { max: option.required(option.integer(2)) };

/**
 * Declares that a size of data varies between runs, so that the first run already makes a plan for all sizes. Without
 * it, a size counts as varying when it has had two different values; the plan is then for sizes up to the next power
 * of two. Sizes of 0 and 1 have their own plans. Returns `data`. Shape: data N -> N.
 *
 * Throws ShapeError if the size is beyond `max`, TensorStateError for a tensor that is not data but computed, and
 * ConfigError if another `max` was declared for the dim.
 */
export function dynamic(data: Tensor, dim: number, options: DynamicOptions): Tensor {
  requireTensors('dynamic', { data });
  checkOptions('dynamic', options, dynamicRules);
  const { max } = options;
  const { node } = data;
  const at = normalizeDim('dynamic', dim, data.shape.length);
  const size = sizeAt(data.shape, at);
  const asked = `to declare dim ${at} of a tensor of shape ${formatShape(data.shape)} to be at most ${max}`;
  if (size > max) {
    throw new ShapeError(
      { asked, found: `it is ${size}`, todo: 'Declare a larger max, or cut the data' },
      { dim: at, size, max },
    );
  }
  if (node.value === null) {
    throw new TensorStateError(
      {
        asked,
        found: `the tensor is the result of ${node.op}`,
        todo: 'Declare the sizes of the data that it is computed from',
      },
      { op: node.op, dim: at },
    );
  }
  const known = node.sizeLimits?.get(at);
  if (known !== undefined && known.max !== max) {
    throw new ConfigError(
      { asked, found: `${known.max} was declared${placeOf(known.site)}`, todo: 'Declare one max' },
      { dim: at, max, known: known.max },
    );
  }
  const limit = { max, site: new CallSite('dynamic') };
  node.sizeLimits = new Map([...(node.sizeLimits ?? []), [at, limit]]);
  return data;
}
