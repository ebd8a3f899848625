import { composed } from '../../realize/pending/small-values.ts';
import { formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { requireShape } from './require-shape.ts';

const factorRules: OptionRules<{ factor: number }> = { factor: option.required(option.integer(1)) };

/**
 * Turns channels into pixels (Shi et al. 2016).
 * Shape: x [.., C factor², H, W] -> [.., C, H factor, W factor].
 */
export function pixelShuffle(x: Tensor, factor: number): Tensor {
  checkOptions('pixelShuffle', { factor }, factorRules);
  requireShape({ operation: 'pixelShuffle', name: 'x', value: x }, ['..', 'C', 'H', 'W']);
  const batch = x.shape.slice(0, -3);
  const [channels = 0, height = 0, width = 0] = x.shape.slice(-3);
  if (channels % factor ** 2 !== 0) {
    const found = `${channels} channels, which ${factor ** 2} does not divide`;
    throw misfit('pixelShuffle', x, found, 'Use a multiple of the square of the factor');
  }
  const left = channels / factor ** 2;
  return composed(() => {
    const parts = x.reshape([...batch, left, factor, factor, height, width]);
    const order = [0, 3, 1, 4, 2].map((dim) => batch.length + dim);
    const pixels = parts.permute([...batch.keys(), ...order]);
    return pixels.reshape([...batch, left, height * factor, width * factor]);
  });
}

/**
 * Turns pixels into channels: the inverse of pixelShuffle.
 * Shape: x [.., C, H factor, W factor] -> [.., C factor², H, W].
 */
export function pixelUnshuffle(x: Tensor, factor: number): Tensor {
  checkOptions('pixelUnshuffle', { factor }, factorRules);
  requireShape({ operation: 'pixelUnshuffle', name: 'x', value: x }, ['..', 'C', 'H', 'W']);
  const batch = x.shape.slice(0, -3);
  const [channels = 0, height = 0, width = 0] = x.shape.slice(-3);
  if (height % factor !== 0 || width % factor !== 0) {
    const found = `an image of ${height} × ${width}, whose sides ${factor} does not divide`;
    throw misfit('pixelUnshuffle', x, found, 'Use multiples of the factor');
  }
  const [rows, columns] = [height / factor, width / factor];
  return composed(() => {
    const parts = x.reshape([...batch, channels, rows, factor, columns, factor]);
    const order = [0, 2, 4, 1, 3].map((dim) => batch.length + dim);
    const moved = parts.permute([...batch.keys(), ...order]);
    return moved.reshape([...batch, channels * factor ** 2, rows, columns]);
  });
}

function misfit(operation: string, { shape }: Tensor, found: string, todo: string): ShapeError {
  return new ShapeError(
    { asked: `${operation} of shape ${formatShape(shape)}`, found, todo },
    { shape },
  );
}
