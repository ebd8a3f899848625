import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { shiftsOf } from './shifts-of.ts';
import { pair, type Size2d, size2d } from './window-size.ts';

/** Options of `unfold`. */
export interface UnfoldOptions {
  /** The distance between windows. Default: 1. */
  readonly stride?: Size2d;
  /** The number of zeros on each side. Default: 0. */
  readonly padding?: Size2d;
  /** The distance between the elements of a window. Default: 1. */
  readonly dilation?: Size2d;
}

const unfoldRules: OptionRules<UnfoldOptions> = {
  stride: size2d(1),
  padding: size2d(0),
  dilation: size2d(1),
};
const kernelRules: OptionRules<{ kernel: Size2d }> = { kernel: option.required(size2d(1)) };

/**
 * torch.nn.functional.unfold: the windows of images as columns (im2col). L is the number of windows, row by row.
 * Shape: x [N, C, H, W], kernel [R, S] -> [N, C R S, L]. Throws ShapeError and ConfigError.
 */
export function unfold(x: Tensor, kernel: Size2d, options: UnfoldOptions = {}): Tensor {
  checkOptions('unfold', { kernel }, kernelRules);
  checkOptions('unfold', options, unfoldRules);
  requireShape({ operation: 'unfold', name: 'x', value: x }, ['N', 'C', 'H', 'W']);
  const [batch = 0, channels = 0] = x.shape;
  const window = pair(kernel);
  const around = [0, 0, ...pair(options.padding ?? 0)];
  return composed(() => {
    const shifts = shiftsOf('unfold', x.pad(around, around), window, {
      stride: pair(options.stride ?? 1),
      dilation: pair(options.dilation ?? 1),
    });
    // The shifts are [R S, N, C, H', W'].
    const [, , , rows = 0, columns = 0] = shifts.shape;
    const rowsOfWindows = channels * window[0] * window[1];
    return shifts.permute([1, 2, 0, 3, 4]).reshape([batch, rowsOfWindows, rows * columns]);
  });
}
