import { fromData } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** The values of the bits of a byte. The first element has the highest bit. */
const places = [128, 64, 32, 16, 8, 4, 2, 1];

/** Packs signs into one bit per element: 1 for a number from 0 on, and else 0. Shape: f32 [8 n] -> u8 [n]. */
export function packSigns(values: Tensor): Tensor {
  const bits = values
    .ge(0)
    .to('f32')
    .reshape([values.numel / 8, 8]);
  return bits.mul(fromPlaces()).sum(1).to('u8');
}

/** Unpacks signs: a bit that is set becomes 1, and any other -1. Shape: u8 [n] -> f32 [8 n]. */
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
