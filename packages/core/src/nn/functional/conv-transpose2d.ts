import { conv2dInput } from '../../graph/ops/contract.ts';
import { floats, requireDType, requireSameDType } from '../../graph/infer-checks.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { formatShape } from '../../base/shape.ts';
import type { Conv2dParams } from '../../spec/op.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError, ShapeError } from '../../spec/errors.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { requireExtent } from './require-extent.ts';
import { type Conv2dOptions, conv2dRules, imageHint } from './conv2d.ts';
import { pair, type Size2d, size2d } from './window-size.ts';
import { lowered } from './lowered.ts';

/** Options of `convTranspose2d`. */
export interface ConvTranspose2dOptions extends Conv2dOptions {
  /** The number of additional rows and columns at the end. It must be less than stride or dilation. Default: 0. */
  readonly outputPadding?: Size2d;
}

export const convTranspose2dRules: OptionRules<ConvTranspose2dOptions> = {
  ...conv2dRules,
  outputPadding: size2d(0),
};

/**
 * torch.nn.functional.conv_transpose2d: the gradient of a conv2d with the same options with respect to its input.
 * Padding removes rows and columns. Each size is (size - 1) stride - 2 padding + dilation (kernel - 1) + outputPadding
 * + 1.
 * Shape: x [N, C, H, W], weight [C, O/groups, R, S], bias [O] -> [N, O, H', W']. Throws ShapeError, DTypeError and
 * ConfigError.
 */
export function convTranspose2d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: ConvTranspose2dOptions = {},
): Tensor {
  const operation = 'convTranspose2d';
  checkOptions(operation, options, convTranspose2dRules);
  const { groups = 1 } = options;
  requireShape({ operation, name: 'weight', value: weight }, ['C', 'O/groups', 'R', 'S']);
  const [channels = 0, perGroup = 0, ...window] = weight.shape;
  requireShape(
    { operation, name: 'x', value: x },
    ['N', ['channels', channels], 'H', 'W'],
    (shape) => imageHint(shape, channels),
  );
  requireDType(operation, x, floats);
  requireSameDType(operation, [x, weight]);
  const outputs = perGroup * groups;
  if (bias !== null) {
    requireShape({ operation, name: 'bias', value: bias }, [['channels', outputs]]);
  }
  requireExtent(operation, { weight, x });
  if (channels % groups !== 0) throw noGroups(channels, groups);
  const [stride, padding, dilation, more] = [
    pair(options.stride ?? 1),
    pair(options.padding ?? 0),
    pair(options.dilation ?? 1),
    pair(options.outputPadding ?? 0),
  ];
  if (([0, 1] as const).some((dim) => more[dim] >= Math.max(stride[dim], dilation[dim]))) {
    throw tooMuch(more, stride, dilation);
  }
  const [batch = 0, , ...sizes] = x.shape;
  const full = ([0, 1] as const).map((dim) => {
    const [size = 0, kernel = 0] = [sizes[dim], window[dim]];
    return (size - 1) * stride[dim] + dilation[dim] * (kernel - 1) + 1;
  });
  const image = ([0, 1] as const).map((dim) => (full[dim] ?? 0) - 2 * padding[dim] + more[dim]);
  if (image.some((size) => size < 1)) throw nothingLeft(x, image);
  const gradient = (params: Pick<Conv2dParams, 'padding'>, size: readonly number[]): Tensor => {
    const whole = { stride, dilation, groups, ...params };
    return new Tensor(conv2dInput(x.node, weight.node, whole, [batch, outputs, ...size]));
  };
  return composed(() => {
    // conv2dInput can compute only as many additional rows as the stride of a convolution skips at its end.
    const isOne = ([0, 1] as const).every((dim) => more[dim] < stride[dim]);
    const y = isOne
      ? gradient({ padding }, image)
      : cut(gradient({ padding: [0, 0] }, full), padding, image);
    if (bias === null) return y;
    return y.add(lowered(bias.reshape([outputs, 1, 1])));
  });
}

/**
 * Cuts `size` rows and columns from `first` on. Beyond the end they are zeros. Shape: [N, O, H, W] -> [N, O, ...size].
 */
function cut(whole: Tensor, first: readonly [number, number], size: readonly number[]): Tensor {
  return ([0, 1] as const).reduce((y, dim) => {
    const [start, count] = [first[dim], size[dim] ?? 0];
    const missing = Math.max(0, start + count - (y.shape[dim + 2] ?? 0));
    const after = [0, 0, 0, 0].map((_, at) => (at === dim + 2 ? missing : 0));
    return y.pad([0, 0, 0, 0], after).slice(dim + 2, start, start + count);
  }, whole);
}

/**
 * The error for additional rows that no convolution of the output would read, so that their values would be arbitrary.
 */
function tooMuch(
  outputPadding: readonly number[],
  stride: readonly number[],
  dilation: readonly number[],
): ConfigError {
  return new ConfigError(
    {
      asked: `convTranspose2d with outputPadding ${formatShape(outputPadding)}`,
      found: `stride ${formatShape(stride)} and dilation ${formatShape(dilation)}`,
      todo: 'Use an outputPadding below stride or dilation',
    },
    { outputPadding, stride, dilation },
  );
}

function noGroups(channels: number, groups: number): ConfigError {
  return new ConfigError(
    {
      asked: `convTranspose2d of ${channels} channels in ${groups} groups`,
      found: 'channels that the groups do not divide',
      todo: 'Make the number of channels a multiple of groups',
    },
    { channels, groups },
  );
}

function nothingLeft({ shape }: Tensor, image: readonly number[]): ShapeError {
  return new ShapeError(
    {
      asked: `convTranspose2d of shape ${formatShape(shape)}`,
      found: `an output of ${image.map((size) => Math.max(0, size)).join(' × ')}`,
      todo: 'Use a larger input or kernel, or less padding',
    },
    { shape, output: image },
  );
}
