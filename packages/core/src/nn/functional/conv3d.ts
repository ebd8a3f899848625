import { composed } from '../../realize/pending/small-values.ts';
import { formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { stack } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';
import { requireExtent } from './require-extent.ts';
import { conv2d } from './conv2d.ts';
import { type Size3d, size3d, triple } from './window-size.ts';

/** Options of `conv3d`. */
export interface Conv3dOptions {
  /** The distance between windows. Default: 1. */
  readonly stride?: Size3d;
  /** The number of zeros on each side. Default: 0. */
  readonly padding?: Size3d;
  /** The distance between the elements that a kernel reads. Default: 1. */
  readonly dilation?: Size3d;
  /** The number of groups of channels. Each group is convolved by itself. Default: 1. */
  readonly groups?: number;
}

export const conv3dRules: OptionRules<Conv3dOptions> = {
  stride: size3d(1),
  padding: size3d(0),
  dilation: size3d(1),
  groups: option.integer(1),
};

/**
 * torch.nn.functional.conv3d: cross-correlation over three dims. It is computed as a convolution of images. The
 * channels of an image are those of all layers that a kernel reads, which takes Q times the memory of x.
 * Shape: x [N, C, D, H, W], weight [O, C/groups, Q, R, S], bias [O] -> [N, O, D', H', W']. Throws ShapeError and
 * ConfigError.
 */
export function conv3d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: Conv3dOptions = {},
): Tensor {
  const operation = 'conv3d';
  checkOptions(operation, options, conv3dRules);
  const { groups = 1 } = options;
  requireShape({ operation, name: 'weight', value: weight }, ['O', 'C/groups', 'Q', 'R', 'S']);
  const [outputs = 0, perGroup = 0, layers = 0, height = 0, width = 0] = weight.shape;
  const channels = perGroup * groups;
  requireShape({ operation, name: 'x', value: x }, ['N', ['channels', channels], 'D', 'H', 'W']);
  if (bias !== null) {
    requireShape({ operation, name: 'bias', value: bias }, [['channels', outputs]]);
  }
  requireExtent(operation, { weight, x });
  const [stride, padding, dilation] = [
    triple(options.stride ?? 1),
    triple(options.padding ?? 0),
    triple(options.dilation ?? 1),
  ];
  const [batch = 0, , depth = 0] = x.shape;
  const reach = dilation[0] * (layers - 1) + 1;
  const places = Math.floor((depth + 2 * padding[0] - reach) / stride[0]) + 1;
  if (places < 1) throw tooDeep(x, reach, padding[0]);
  return composed(() => {
    const around = [0, 0, padding[0], 0, 0];
    const padded = padding[0] === 0 ? x : x.pad(around, around);
    const touched = Array.from({ length: layers }, (_, layer) => {
      const first = layer * dilation[0];
      return padded.slice(2, first, first + (places - 1) * stride[0] + 1, stride[0]);
    });
    // The stack is [N, C, Q, D', H, W]. Each of the D' places becomes an image, and the Q layers that a kernel reads
    // there become channels.
    const windows = stack(touched, 2).permute([0, 3, 1, 2, 4, 5]);
    const [, , , , rows = 0, columns = 0] = windows.shape;
    const images = windows.reshape([batch * places, channels * layers, rows, columns]);
    const flat = weight.reshape([outputs, perGroup * layers, height, width]);
    const y = conv2d(images, flat, bias, {
      stride: [stride[1], stride[2]],
      padding: [padding[1], padding[2]],
      dilation: [dilation[1], dilation[2]],
      groups,
    });
    const [, , newRows = 0, newColumns = 0] = y.shape;
    return y.reshape([batch, places, outputs, newRows, newColumns]).permute([0, 2, 1, 3, 4]);
  });
}

function tooDeep({ shape }: Tensor, reach: number, padding: number): ShapeError {
  return new ShapeError(
    {
      asked: `conv3d of shape ${formatShape(shape)} with padding ${padding} of its depth`,
      found: `a kernel that is ${reach} deep`,
      todo: 'Use a deeper input, a smaller kernel or dilation, or more padding',
    },
    { shape, reach, padding },
  );
}
