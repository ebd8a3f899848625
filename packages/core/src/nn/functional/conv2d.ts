import { conv2d as convolve } from '../../graph/build/contract.ts';
import { ConfigError } from '../../spec/errors.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** One number for both dims, or [height, width]. */
export type Size2d = number | readonly [number, number];

export interface Conv2dOptions {
  /** Default 1. */
  readonly stride?: Size2d;
  /** Zeros on each side; default 0. */
  readonly padding?: Size2d;
  /** Distance between the elements that a kernel touches; default 1. */
  readonly dilation?: Size2d;
  /** Parts into which the channels fall, each convolved by itself; default 1. */
  readonly groups?: number;
}

/**
 * Cross-correlation, as torch.nn.functional.conv2d.
 * Shape: x [N, C, H, W], weight [O, C/groups, R, S], bias [O] -> [N, O, H', W'].
 * Throws ShapeError, and ConfigError for options that are no such integers.
 */
export function conv2d(
  x: Tensor,
  weight: Tensor,
  bias: Tensor | null = null,
  options: Conv2dOptions = {},
): Tensor {
  const { groups = 1 } = options;
  checkInteger('groups', groups, 1);
  const y = new Tensor(
    convolve(x.node, weight.node, {
      stride: pair('stride', options.stride ?? 1, 1),
      padding: pair('padding', options.padding ?? 0, 0),
      dilation: pair('dilation', options.dilation ?? 1, 1),
      groups,
    }),
  );
  return bias === null ? y : y.add(bias.reshape([bias.numel, 1, 1]));
}

/** Throws ConfigError for anything but integers of at least `least`. */
export function pair(name: string, size: Size2d, least: number): readonly [number, number] {
  const [height, width] = typeof size === 'number' ? [size, size] : size;
  checkInteger(name, height, least);
  checkInteger(name, width, least);
  return [height, width];
}

function checkInteger(name: string, value: number, least: number): void {
  if (Number.isSafeInteger(value) && value >= least) return;
  throw new ConfigError(
    {
      asked: `a window with ${name} ${value}`,
      found: 'no integer in range',
      todo: `Use an integer of at least ${least}`,
    },
    { name, value },
  );
}
