import { conv2d as convolve, conv2dSums } from '../../graph/ops/contract.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Shape } from '../../spec/dtype.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { requireExtent } from './require-extent.ts';
import { pair, type Size2d, size2d } from './window-size.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { withBias } from './with-bias.ts';

/** Options of `conv2d`. */
export interface Conv2dOptions {
  /** The distance between windows. Default: 1. */
  readonly stride?: Size2d;
  /** The number of zeros on each side. Default: 0. */
  readonly padding?: Size2d;
  /** The distance between the elements that a kernel reads. Default: 1. */
  readonly dilation?: Size2d;
  /** The number of groups of channels. Each group is convolved by itself. Default: 1. */
  readonly groups?: number;
}

export const conv2dRules: OptionRules<Conv2dOptions> = {
  stride: size2d(1),
  padding: size2d(0),
  dilation: size2d(1),
  groups: option.integer(1),
};

/**
 * torch.nn.functional.conv2d: cross-correlation over two dims.
 * Shape: x [N, C, H, W], weight [O, C/groups, R, S], bias [O] -> [N, O, H', W']. Throws ShapeError, and ConfigError for
 * options that are not integers in range.
 */
export function conv2d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: Conv2dOptions = {},
): Tensor {
  checkOptions('conv2d', options, conv2dRules);
  const { groups = 1 } = options;
  const operation = 'conv2d';
  requireShape({ operation, name: 'weight', value: weight }, ['O', 'C/groups', 'R', 'S']);
  const [out = 0, perGroup = 0] = weight.shape;
  const channels = perGroup * groups;
  requireShape(
    { operation, name: 'x', value: x },
    ['N', ['channels', channels], 'H', 'W'],
    (shape) => imageHint(shape, channels),
  );
  if (bias !== null) {
    requireShape({ operation, name: 'bias', value: bias }, [['channels', out]]);
  }
  requireExtent(operation, { weight, x });
  return composed(() => {
    const window = {
      stride: pair(options.stride ?? 1),
      padding: pair(options.padding ?? 0),
      dilation: pair(options.dilation ?? 1),
      groups,
    };
    if (bias === null) return new Tensor(convolve(x.node, weight.node, window));
    return withBias({
      x,
      bias: bias.reshape([bias.numel, 1, 1]),
      rounded: () => convolve(x.node, weight.node, window),
      sums: () => conv2dSums(x.node, weight.node, window),
    });
  });
}

/** Returns advice for a shape of an image with its channels last, as in most files, or without a batch dim. */
export function imageHint(shape: Shape, channels: number): string | undefined {
  const [first, second] = shape;
  if (shape.length === 4 && shape[3] === channels && second !== channels) {
    return 'channels that stand last come first with x.permute([0, 3, 1, 2])';
  }
  const isImage = shape.length === 3 && first === channels;
  return isImage ? 'one image is a batch of one with x.unsqueeze(0)' : undefined;
}
