import type { Tensor } from '../tensor/tensor.ts';

/**
 * The numbers of dynamic tree quantization (Dettmers et al. 2022, "8-bit optimizers via block-wise quantization") in
 * [-1, 1] or [0, 1]. There are seven decades. Each has twice as many numbers as the one below, evenly spread. 0 and 1
 * are added to them. A code is one byte. The order of the codes is our own.
 */
export interface DynamicMap {
  /** The code of the nearest number. Shape: f32 N of [-1, 1] -> u8 N. */
  readonly encode: (values: Tensor) => Tensor;
  /** The number of a code. Shape: u8 N -> f32 N. */
  readonly decode: (codes: Tensor) => Tensor;
}

interface Decade {
  /** The place of the first number of the decade. Places ascend through all decades, from 1. */
  readonly place: number;
  readonly count: number;
  readonly low: number;
  readonly width: number;
  /** Values from this one on are nearer to numbers of this decade than to those below. */
  readonly from: number;
}

const DECADE_COUNT = 7;
const ZERO_CODE = 128;

/**
 * The map for [-1, 1]. The code of a positive number is 128 + its place, that of a negative one 128 - its place. The
 * code of 1 is 0.
 */
export const signedMap: DynamicMap = {
  encode: (values) => {
    const place = placeOf(values.abs(), signedDecades);
    const code = values.lt(0).where(place.neg(), place).add(ZERO_CODE);
    return values.ge(nearOne(signedDecades)).where(0, code).to('u8');
  },
  decode: (codes) => {
    const code = codes.to('f32');
    const offset = code.sub(ZERO_CODE);
    const magnitude = magnitudeAt(offset.abs(), signedDecades);
    const value = offset.lt(0).where(magnitude.neg(), magnitude);
    return code.lt(0.5).where(1, value);
  },
};

/**
 * The map for [0, 1]. The code is the place, and 255 for 1. A number above 0 is not rounded to 0, because the update
 * divides by its root.
 */
export const unsignedMap: DynamicMap = {
  encode: (values) => {
    const place = placeOf(values, unsignedDecades).maximum(values.gt(0).to('f32'));
    return values.ge(nearOne(unsignedDecades)).where(255, place).to('u8');
  },
  decode: (codes) => {
    const code = codes.to('f32');
    return code.gt(254.5).where(1, magnitudeAt(code, unsignedDecades));
  },
};

const signedDecades: readonly Decade[] = decades(0);
const unsignedDecades: readonly Decade[] = decades(1);

/** The decades, with 2^extraBits times as many numbers as in the signed map. */
function decades(extraBits: number): Decade[] {
  const list: Decade[] = [];
  let below = 0;
  let place = 1;
  for (let exponent = 0; exponent < DECADE_COUNT; exponent++) {
    const count = 2 ** (exponent + extraBits);
    const low = 10 ** (exponent - DECADE_COUNT);
    const width = (9 * low) / count;
    list.push({ place, count, low, width, from: (below + low + width / 2) / 2 });
    below = low + width * (count - 0.5);
    place += count;
  }
  return list;
}

/** Returns the value from which on 1 is the nearest number. */
function nearOne(list: readonly Decade[]): number {
  const last = list.at(-1);
  return last === undefined ? 1 : (2 - last.width / 2) / 2;
}

/** The places of the nearest numbers. The place is 0 if 0 is the nearest. Shape: N -> N. */
function placeOf(magnitudes: Tensor, list: readonly Decade[]): Tensor {
  return list.reduce((place, { from, low, width, count, place: first }) => {
    const within = magnitudes
      .sub(low)
      .div(width)
      .floor()
      .clamp(0, count - 1);
    return magnitudes.ge(from).where(within.add(first), place);
  }, magnitudes.mul(0));
}

/** The magnitudes at places. Shape: N -> N. */
function magnitudeAt(places: Tensor, list: readonly Decade[]): Tensor {
  return list.reduce((magnitude, { low, width, place }) => {
    const value = places
      .sub(place - 0.5)
      .mul(width)
      .add(low);
    return places.ge(place).where(value, magnitude);
  }, places.mul(0));
}
