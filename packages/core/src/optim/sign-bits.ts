import { fromData } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** Place values of the bits of a byte, the first element's highest. */
const places = [128, 64, 32, 16, 8, 4, 2, 1];

/** One bit an element: 1 where it is at least 0. Shape: f32 [8 n] -> u8 [n]. */
export function packSigns(values: Tensor): Tensor {
  const bits = values
    .ge(0)
    .to('f32')
    .reshape([values.numel / 8, 8]);
  return bits.mul(fromPlaces()).sum(1).to('u8');
}

/** 1 for a set bit and -1 for another. Shape: u8 [n] -> f32 [8 n]. */
export function unpackSigns(packed: Tensor): Tensor {
  const bytes = packed.to('f32').reshape([packed.numel, 1]).expand([packed.numel, 8]);
  const shifted = bytes.div(fromPlaces()).floor();
  const bits = shifted.sub(shifted.mul(0.5).floor().mul(2));
  return bits
    .mul(2)
    .sub(1)
    .reshape([packed.numel * 8]);
}

function fromPlaces(): Tensor {
  return fromData(Float32Array.from(places), [8], 'f32');
}
