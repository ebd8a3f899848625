import { rankState } from '../../ambient.ts';
import { computeDType } from '../../base/dtype-kind.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import { withoutAutocast } from '../../graph/autocast.ts';
import { formatShape } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { full, ones } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireExtent } from './require-extent.ts';
import { conv2d } from './conv2d.ts';
import { shiftsOf } from './shifts-of.ts';
import { pair, type Size2d, size2d } from './window-size.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { composed } from '../../realize/pending/small-values.ts';

/** Options of `avgPool2d`. */
export interface PoolOptions {
  /** The distance between windows. Default: the size of the kernel, so that windows do not overlap. */
  readonly stride?: Size2d;
  /** The padding on each side, at most half the kernel. Default: 0. */
  readonly padding?: Size2d;
}

/** Options of `maxPool2d`. */
export interface MaxPoolOptions extends PoolOptions {
  /** The distance between the elements of a window. Default: 1. */
  readonly dilation?: Size2d;
}

export const poolRules: OptionRules<PoolOptions> = { stride: size2d(1), padding: size2d(0) };
export const maxPoolRules: OptionRules<MaxPoolOptions> = { ...poolRules, dilation: size2d(1) };
export const kernelRules: OptionRules<{ kernel: Size2d }> = { kernel: option.required(size2d(1)) };

/**
 * The maximum of each window. If several elements are equal, the first one in row order gets the gradient, as
 * in PyTorch.
 * Shape: x [N, C, H, W] -> [N, C, H', W']. Throws ShapeError and ConfigError.
 */
export function maxPool2d(x: Tensor, kernel: Size2d, options: MaxPoolOptions = {}): Tensor {
  checkOptions('maxPool2d', options, maxPoolRules);
  const { padding, window } = checkedWindow('maxPool2d', x, kernel, options);
  const stride = pair(options.stride ?? kernel);
  const dilation = pair(options.dilation ?? 1);
  requireDType('maxPool2d', x, floats);
  const around = [0, 0, ...padding];
  const pooled = composed(() => {
    const padded = x.pad(around, around, Number.NEGATIVE_INFINITY);
    const shifts = (values: Tensor): Tensor =>
      shiftsOf('maxPool2d', values, window, { stride, dilation });
    const candidates = shifts(padded);
    const places = candidates.argMax(0, { keepDim: true });
    const isPadded = padding.some((size) => size > 0);
    if (!isPadded) return candidates.gather(0, places).squeeze(0);
    // In a window of nothing but -Infinity, the first element of x gets the gradient, and not the padding before it.
    const [, , height = 0, width = 0] = x.shape;
    const inside = shifts(ones([1, 1, height, width]).pad(around, around));
    const isLowest = candidates.detach().gather(0, places).eq(Number.NEGATIVE_INFINITY);
    const chosen = isLowest.where(inside.argMax(0, { keepDim: true }), places);
    return candidates.gather(0, chosen).squeeze(0);
  });
  rankState.observer?.pool(pooled.contents, x.contents);
  return pooled;
}

/**
 * The mean of each window. Padding counts as zeros, as in PyTorch.
 * Shape: x [N, C, H, W] -> [N, C, H', W']. Throws ShapeError and ConfigError.
 */
export function avgPool2d(x: Tensor, kernel: Size2d, options: PoolOptions = {}): Tensor {
  checkOptions('avgPool2d', options, poolRules);
  const { padding, window } = checkedWindow('avgPool2d', x, kernel, options);
  const [batch = 0, channels = 0, height = 0, width = 0] = x.shape;
  requireDType('avgPool2d', x, floats);
  return composed(() => {
    const wide = x.to(computeDType(x.dtype));
    const weight = full([1, 1, ...window], 1 / (window[0] * window[1]), wide.dtype);
    const planes = wide.reshape([batch * channels, 1, height, width]);
    const pooled = withoutAutocast(() =>
      conv2d(planes, weight, null, { stride: options.stride ?? kernel, padding }),
    );
    return pooled.reshape([batch, channels, ...pooled.shape.slice(2)]).to(x.dtype);
  });
}

function checkedWindow(
  operation: string,
  x: Tensor,
  kernel: Size2d,
  options: PoolOptions,
): { padding: readonly [number, number]; window: readonly [number, number] } {
  checkOptions(operation, { kernel }, kernelRules);
  const window = pair(kernel);
  const padding = pair(options.padding ?? 0);
  if (x.ndim === 4 && padding.every((size, axis) => size * 2 <= (window[axis] ?? 0))) {
    requireExtent(operation, { x });
    return { padding, window };
  }
  throw new ShapeError(
    {
      asked: `${operation} of shape ${formatShape(x.shape)} with a kernel of ${formatShape(window)}`,
      found: `${x.ndim} dims and padding ${formatShape(padding)}`,
      todo: 'Use an input of shape [N, C, H, W], and a padding of at most half the kernel',
    },
    { shape: x.shape, window, padding },
  );
}
