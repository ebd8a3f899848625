import { rankState } from '../../ambient.ts';
import { computeDType } from '../../base/dtype-kind.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRule, OptionRules } from '../../base/option-rules.ts';
import { stack } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { requireExtent } from './require-extent.ts';

/** The size of an output, for both dims or for each. null: the size of the input. */
export type OutputSize2d = number | null | readonly [number | null, number | null];

const size = option.integer(1);
const sizeOrNull: OptionRule<number | null> = {
  fits: (value): value is number | null => value === null || size.fits(value),
  expected: `${size.expected}, or null`,
};
const pairOfSizes: OptionRule<OutputSize2d> = {
  fits: (value): value is OutputSize2d =>
    sizeOrNull.fits(value) ||
    (Array.isArray(value) && value.length === 2 && value.every(sizeOrNull.fits)),
  expected: `${sizeOrNull.expected}, or two of them, [height, width]`,
};
export const output1dRules: OptionRules<{ outputSize: number }> = {
  outputSize: option.required(size),
};
export const output2dRules: OptionRules<{ outputSize: OutputSize2d }> = {
  outputSize: option.required(pairOfSizes),
};

/**
 * The means of `outputSize` windows that cover a dim. The sizes of the windows are as equal as possible (torch
 * adaptive_avg_pool1d).
 * Shape: x [N, C, L] -> [N, C, outputSize]. Throws ShapeError and ConfigError.
 */
export function adaptiveAvgPool1d(x: Tensor, outputSize: number): Tensor {
  checkOptions('adaptiveAvgPool1d', { outputSize }, output1dRules);
  requireShape({ operation: 'adaptiveAvgPool1d', name: 'x', value: x }, ['N', 'C', 'L']);
  requireDType('adaptiveAvgPool1d', x, floats);
  requireExtent('adaptiveAvgPool1d', { x });
  const pooled = composed(() => inWide(x, (wide) => meansAlong(wide, 2, outputSize)));
  rankState.observer?.pool(pooled.contents, x.contents);
  return pooled;
}

/**
 * The means of windows that cover the image. The sizes of the windows are as equal as possible (torch
 * adaptive_avg_pool2d).
 * Shape: x [N, C, H, W] -> [N, C, ...outputSize]. Throws ShapeError and ConfigError.
 */
export function adaptiveAvgPool2d(x: Tensor, outputSize: OutputSize2d): Tensor {
  checkOptions('adaptiveAvgPool2d', { outputSize }, output2dRules);
  requireShape({ operation: 'adaptiveAvgPool2d', name: 'x', value: x }, ['N', 'C', 'H', 'W']);
  requireDType('adaptiveAvgPool2d', x, floats);
  requireExtent('adaptiveAvgPool2d', { x });
  const [height, width] =
    typeof outputSize === 'object' && outputSize !== null ? outputSize : [outputSize, outputSize];
  const pooled = composed(() =>
    inWide(x, (wide) => meansAlong(meansAlong(wide, 2, height), 3, width)),
  );
  rankState.observer?.pool(pooled.contents, x.contents);
  return pooled;
}

/** Sums of 16-bit values are computed in f32. */
function inWide(x: Tensor, pool: (wide: Tensor) => Tensor): Tensor {
  return pool(x.to(computeDType(x.dtype))).to(x.dtype);
}

/**
 * The means of `count` windows of a dim. Null stands for the size of the dim. Shape: [.., D, ..] -> [.., count, ..].
 */
function meansAlong(x: Tensor, dim: number, count: number | null): Tensor {
  const length = sizeAt(x.shape, dim);
  if (count === null || count === length) return x;
  const means = Array.from({ length: count }, (_, index) => {
    const start = Math.floor((index * length) / count);
    return x.slice(dim, start, Math.ceil(((index + 1) * length) / count)).mean(dim);
  });
  return stack(means, dim);
}
