import { computeDType } from '../../base/dtype-kind.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import { composed } from '../../realize/pending/small-values.ts';
import { formatShape, sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import { fromData } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { type InterpolationMode, type Tap, tapsOf } from './resample-taps.ts';

/** One number for all dims, or one for each. */
type PerDim = number | readonly number[];

/** Options of `interpolate`. */
export interface InterpolateOptions {
  /** The size of the result after batch and channels. Give either this or scaleFactor. */
  readonly size?: PerDim;
  /** The factor of the sizes. Products are rounded down. */
  readonly scaleFactor?: PerDim;
  /** The mode. Linear is for x of 3 dims, bilinear and bicubic for 4, trilinear for 5. Default: nearest. */
  readonly mode?: InterpolationMode;
  /** Whether the centers of the first and last elements stay where they are. Default: false. */
  readonly alignCorners?: boolean;
}

const sizes = option.either(option.integer(1), option.listOf(option.integer(1)));
const factors = option.either(option.positive, option.listOf(option.positive));
const interpolateRules: OptionRules<InterpolateOptions> = {
  size: sizes,
  scaleFactor: factors,
  mode: option.oneOf('nearest', 'nearestExact', 'linear', 'bilinear', 'trilinear', 'bicubic'),
  alignCorners: option.flag,
};

/** The numbers of dims that each mode can resize. */
const dimsOf: Readonly<Record<InterpolationMode, readonly number[]>> = {
  nearest: [1, 2, 3],
  nearestExact: [1, 2, 3],
  linear: [1],
  bilinear: [2],
  trilinear: [3],
  bicubic: [2],
};

/**
 * torch.nn.functional.interpolate, without antialias: makes signals, images or volumes larger or smaller.
 * Shape: x [N, C, ...sizes] -> [N, C, ...new sizes]. Throws DTypeError, and ConfigError for options that do not fit x.
 */
export function interpolate(x: Tensor, options: InterpolateOptions): Tensor {
  const operation = 'interpolate';
  checkOptions(operation, options, interpolateRules);
  requireTensors(operation, { x });
  requireDType(operation, x, floats);
  const { mode = 'nearest', alignCorners = false } = options;
  const dims = x.ndim - 2;
  if (!dimsOf[mode].includes(dims)) throw otherDims(mode, x);
  const isNearest = mode === 'nearest' || mode === 'nearestExact';
  if (isNearest && alignCorners) throw aligned(mode);
  const plans = targetsOf(x, options).map(({ from, to, scale }) =>
    tapsOf(mode, { from, to, scale, alignCorners, dims }),
  );
  return composed(() => {
    const wide = isNearest ? x : x.to(computeDType(x.dtype));
    return plans.reduce((y, taps, index) => resampled(y, index + 2, taps), wide).to(x.dtype);
  });
}

/** Sums the taps along a dim. Shape: [.., D, ..] -> [.., length of a tap, ..]. */
function resampled(x: Tensor, dim: number, taps: readonly Tap[]): Tensor {
  const terms = taps.map(({ indices, weights }) => {
    const { length } = indices;
    const taken = x.indexSelect(dim, fromData(indices, [length], 'i32'));
    if (weights === null) return taken;
    const shape = x.shape.map((_, at) => (at === dim ? length : 1));
    return taken.mul(fromData(weights, shape, 'f32'));
  });
  return terms.reduce((sum, term) => sum.add(term));
}

interface Target {
  readonly from: number;
  readonly to: number;
  /**
   * The number of elements of the input for each element of the output: 1 / scaleFactor if it is given, or else from /
   * to.
   */
  readonly scale: number;
}

function targetsOf(x: Tensor, { size, scaleFactor }: InterpolateOptions): Target[] {
  const dims = x.shape.slice(2).map((_, index) => index + 2);
  if ((size === undefined) === (scaleFactor === undefined)) throw oneOfBoth();
  return dims.map((dim, index) => {
    const from = sizeAt(x.shape, dim);
    if (scaleFactor === undefined) {
      const to = eachOf(x, 'size', size ?? 1, dims.length)[index] ?? 1;
      return { from, to, scale: from / to };
    }
    const factor = eachOf(x, 'scaleFactor', scaleFactor, dims.length)[index] ?? 1;
    const to = Math.floor(from * factor);
    if (to < 1) throw nothingLeft(x, factor);
    return { from, to, scale: 1 / factor };
  });
}

function eachOf(x: Tensor, name: string, value: PerDim, count: number): readonly number[] {
  if (typeof value === 'number') return Array.from({ length: count }, () => value);
  if (value.length === count) return value;
  throw new ConfigError(
    {
      asked: `interpolate of shape ${formatShape(x.shape)} with ${name} ${formatShape(value)}`,
      found: `${count} dims behind batch and channels`,
      todo: 'Give one number for all of them, or one for each',
    },
    { [name]: value, shape: x.shape },
  );
}

function oneOfBoth(): ConfigError {
  return new ConfigError({
    asked: 'interpolate with size and scaleFactor',
    found: 'both or none of them',
    todo: 'Give one of them',
  });
}

function otherDims(mode: InterpolationMode, { shape }: Tensor): ConfigError {
  return new ConfigError(
    {
      asked: `interpolate of shape ${formatShape(shape)} in mode ${mode}`,
      found: `a mode for x of ${dimsOf[mode].map((dims) => dims + 2).join(', ')} dims`,
      todo: 'Use nearest, linear for [N, C, L], bilinear or bicubic for [N, C, H, W], trilinear for [N, C, D, H, W]',
    },
    { mode, shape },
  );
}

function aligned(mode: InterpolationMode): ConfigError {
  return new ConfigError(
    {
      asked: `interpolate in mode ${mode} with alignCorners`,
      found: 'a mode that knows no corners',
      todo: 'Leave alignCorners out, or use linear, bilinear, bicubic or trilinear',
    },
    { mode },
  );
}

function nothingLeft({ shape }: Tensor, factor: number): ConfigError {
  return new ConfigError(
    {
      asked: `interpolate of shape ${formatShape(shape)} with scaleFactor ${factor}`,
      found: 'a result without elements',
      todo: 'Use a larger factor',
    },
    { shape, factor },
  );
}
