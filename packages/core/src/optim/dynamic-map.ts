import type { Tensor } from '../tensor/tensor.ts';

/**
 * The numbers of dynamic tree quantization (Dettmers et al. 2022, "8-bit optimizers via block-wise
 * quantization") in [-1, 1], or [0, 1]: in each of seven decades twice as many as in the one below, evenly
 * spread, and beside them 0 and 1. A code is one byte; how they are numbered is our own.
 */
export interface DynamicMap {
  /** The code of the nearest number. Shape: f32 N of [-1, 1] -> u8 N. */
  readonly encode: (values: Tensor) => Tensor;
  /** Shape: u8 N -> f32 N. */
  readonly decode: (codes: Tensor) => Tensor;
}

interface Decade {
  /** The place of its first number; places ascend through all decades. */
  readonly place: number;
  readonly count: number;
  readonly low: number;
  readonly width: number;
  /** The value from which on numbers of this decade are nearer than those below. */
  readonly from: number;
}

const decadeCount = 7;
const zeroCode = 128;

/** Code 128 + place for the place of a magnitude, 128 - place for a negative one, and 0 for 1. */
export const signedMap: DynamicMap = {
  encode: (values) => {
    const place = placeOf(values.abs(), signedDecades);
    const code = values.lt(0).where(place.neg(), place).add(zeroCode);
    return values.ge(nearOne(signedDecades)).where(0, code).to('u8');
  },
  decode: (codes) => {
    const code = codes.to('f32');
    const offset = code.sub(zeroCode);
    const magnitude = magnitudeAt(offset.abs(), signedDecades);
    const value = offset.lt(0).where(magnitude.neg(), magnitude);
    return code.lt(0.5).where(1, value);
  },
};

/** The code is the place. A number that is not 0 is not rounded to 0, as it is to be divided by. */
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

/** 2^extraBits times as many numbers as with a sign. */
function decades(extraBits: number): Decade[] {
  const list: Decade[] = [];
  let below = 0;
  let place = 1;
  for (let exponent = 0; exponent < decadeCount; exponent++) {
    const count = 2 ** (exponent + extraBits);
    const low = 10 ** (exponent - decadeCount);
    const width = (9 * low) / count;
    list.push({ place, count, low, width, from: (below + low + width / 2) / 2 });
    below = low + width * (count - 0.5);
    place += count;
  }
  return list;
}

/** The value from which on 1 is the nearest number. */
function nearOne(list: readonly Decade[]): number {
  const last = list.at(-1);
  return last === undefined ? 1 : (2 - last.width / 2) / 2;
}

/** 0 for what is nearest to 0. Shape: N -> N. */
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

/** Shape: N -> N. */
function magnitudeAt(places: Tensor, list: readonly Decade[]): Tensor {
  return list.reduce((magnitude, { low, width, place }) => {
    const value = places
      .sub(place - 0.5)
      .mul(width)
      .add(low);
    return places.ge(place).where(value, magnitude);
  }, places.mul(0));
}
