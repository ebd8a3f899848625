import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { avgPool2d, maxPool2d } from './pool2d.ts';

/** Options of `avgPool1d`. */
export interface Pool1dOptions {
  /** The distance between windows. Default: the size of the kernel, so that windows do not overlap. */
  readonly stride?: number;
  /** The padding on each side, at most half the kernel. Default: 0. */
  readonly padding?: number;
}

/** Options of `maxPool1d`. */
export interface MaxPool1dOptions extends Pool1dOptions {
  /** The distance between the elements of a window. Default: 1. */
  readonly dilation?: number;
}

export const pool1dRules: OptionRules<Pool1dOptions> = {
  stride: option.integer(1),
  padding: option.count,
};
export const maxPool1dRules: OptionRules<MaxPool1dOptions> = {
  ...pool1dRules,
  dilation: option.integer(1),
};
export const kernel1dRules: OptionRules<{ kernel: number }> = {
  kernel: option.required(option.integer(1)),
};

/**
 * The maximum of each window, as in maxPool2d.
 * Shape: x [N, C, L] -> [N, C, L']. Throws ShapeError and ConfigError.
 */
export function maxPool1d(x: Tensor, kernel: number, options: MaxPool1dOptions = {}): Tensor {
  checkOptions('maxPool1d', { kernel }, kernel1dRules);
  checkOptions('maxPool1d', options, maxPool1dRules);
  requireShape({ operation: 'maxPool1d', name: 'x', value: x }, ['N', 'C', 'L']);
  const { stride = kernel, padding = 0, dilation = 1 } = options;
  return composed(() =>
    maxPool2d(x.unsqueeze(2), [1, kernel], {
      stride: [1, stride],
      padding: [0, padding],
      dilation: [1, dilation],
    }).squeeze(2),
  );
}

/**
 * The mean of each window, as in avgPool2d.
 * Shape: x [N, C, L] -> [N, C, L']. Throws ShapeError and ConfigError.
 */
export function avgPool1d(x: Tensor, kernel: number, options: Pool1dOptions = {}): Tensor {
  checkOptions('avgPool1d', { kernel }, kernel1dRules);
  checkOptions('avgPool1d', options, pool1dRules);
  requireShape({ operation: 'avgPool1d', name: 'x', value: x }, ['N', 'C', 'L']);
  const { stride = kernel, padding = 0 } = options;
  return composed(() =>
    avgPool2d(x.unsqueeze(2), [1, kernel], { stride: [1, stride], padding: [0, padding] }).squeeze(
      2,
    ),
  );
}
