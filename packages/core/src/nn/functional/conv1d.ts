import { composed } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { requireExtent } from './require-extent.ts';
import { conv2d } from './conv2d.ts';

/** Options of `conv1d`. */
export interface Conv1dOptions {
  /** The distance between windows. Default: 1. */
  readonly stride?: number;
  /** The number of zeros on each side. Default: 0. */
  readonly padding?: number;
  /** The distance between the elements that a kernel reads. Default: 1. */
  readonly dilation?: number;
  /** The number of groups of channels. Each group is convolved by itself. Default: 1. */
  readonly groups?: number;
}

export const conv1dRules: OptionRules<Conv1dOptions> = {
  stride: option.integer(1),
  padding: option.count,
  dilation: option.integer(1),
  groups: option.integer(1),
};

/**
 * torch.nn.functional.conv1d: cross-correlation over one dim.
 * Shape: x [N, C, L], weight [O, C/groups, K], bias [O] -> [N, O, L']. Throws ShapeError and ConfigError.
 */
export function conv1d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: Conv1dOptions = {},
): Tensor {
  const operation = 'conv1d';
  checkOptions(operation, options, conv1dRules);
  const { stride = 1, padding = 0, dilation = 1, groups = 1 } = options;
  requireShape({ operation, name: 'weight', value: weight }, ['O', 'C/groups', 'K']);
  const [outputs = 0, perGroup = 0] = weight.shape;
  const channels = ['channels', perGroup * groups] as const;
  requireShape({ operation, name: 'x', value: x }, ['N', channels, 'L']);
  if (bias !== null) {
    requireShape({ operation, name: 'bias', value: bias }, [['channels', outputs]]);
  }
  requireExtent(operation, { weight, x });
  return composed(() =>
    conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, {
      stride: [1, stride],
      padding: [0, padding],
      dilation: [1, dilation],
      groups,
    }).squeeze(2),
  );
}
