/** How `interpolate` computes a value from its neighbours. The names are PyTorch's. */
export type InterpolationMode =
  | 'nearest'
  | 'nearestExact'
  | 'linear'
  | 'bilinear'
  | 'trilinear'
  | 'bicubic';

/**
 * One term of each element of the output: the index of an element of the input, and its factor. Null: the factor is 1.
 */
export interface Tap {
  readonly indices: Int32Array<ArrayBuffer>;
  readonly weights: Float32Array<ArrayBuffer> | null;
}

export interface Resampling {
  readonly from: number;
  readonly to: number;
  /** The number of elements of the input for each element of the output. */
  readonly scale: number;
  readonly alignCorners: boolean;
  /** The number of dims that are resampled. */
  readonly dims: number;
}

const { fround } = Math;

/** The terms that the elements of one dim of a result are sums of. As in PyTorch, places are computed in f32. */
export function tapsOf(mode: InterpolationMode, resampling: Resampling): readonly Tap[] {
  if (mode === 'nearest') return nearest(resampling, 0);
  if (mode === 'nearestExact') return nearest(resampling, 0.5);
  return mode === 'bicubic' ? cubic(resampling) : linear(resampling);
}

/** The nearest elements. As in PyTorch, images with an offset of 0 ignore the scale if their size stays or doubles. */
function nearest({ from, to, scale, dims }: Resampling, offset: number): readonly Tap[] {
  const step = fround(scale);
  const isImage = dims === 2 && offset === 0;
  const placeOf = (index: number): number => {
    if (isImage && to === from) return index;
    if (isImage && to === 2 * from) return Math.floor(index / 2);
    return Math.floor(fround(fround(index + offset) * step));
  };
  const indices = Int32Array.from({ length: to }, (_, index) => Math.min(from - 1, placeOf(index)));
  return [{ indices, weights: null }];
}

/** The places of the elements of the output, as fractional indices of the input. */
function places({ from, to, scale, alignCorners }: Resampling): number[] {
  const step = fround(alignCorners ? (to > 1 ? (from - 1) / (to - 1) : 0) : scale);
  return Array.from({ length: to }, (_, index) =>
    alignCorners ? fround(step * index) : fround(fround(step * (index + 0.5)) - 0.5),
  );
}

/** Linear interpolation. If the size of a dim stays, its elements stay, whatever the scale is. */
function linear(resampling: Resampling): readonly Tap[] {
  const { from, to } = resampling;
  if (to === from)
    return [{ indices: Int32Array.from({ length: to }, (_, i) => i), weights: null }];
  const at = places(resampling).map((place) => Math.max(0, place));
  const low = Int32Array.from(at, (place) => Math.min(from - 1, Math.floor(place)));
  const high = low.map((index) => Math.min(from - 1, index + 1));
  const share = Float32Array.from(at, (place, i) => place - (low[i] ?? 0));
  return [
    { indices: low, weights: share.map((part) => 1 - part) },
    { indices: high, weights: share },
  ];
}

/** Cubic convolution (Keys 1981) with a = -0.75. Indices beyond the ends are replaced by the ends. */
function cubic(resampling: Resampling): readonly Tap[] {
  const { from } = resampling;
  const at = places(resampling);
  return [-1, 0, 1, 2].map((shift) => ({
    indices: Int32Array.from(at, (place) =>
      Math.min(from - 1, Math.max(0, Math.floor(place) + shift)),
    ),
    weights: Float32Array.from(at, (place) => cubicWeight(place - Math.floor(place) - shift)),
  }));
}

function cubicWeight(distance: number): number {
  const a = -0.75;
  const x = Math.abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
