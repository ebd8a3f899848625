import type { RgbImage } from './rgb-image.ts';

/** Pillow's codes of filters, which `preprocessor_config.json` has. */
export const filterNames = ['nearest', 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'] as const;

export type FilterName = (typeof filterNames)[number];

/** A filter: how far it reaches, in pixels, and its weight at a distance. */
interface Filter {
  readonly reach: number;
  weight(x: number): number;
}

// Pillow has these two in f32.
const HAMMING_BASE = Math.fround(0.54);
const HAMMING_WAVE = Math.fround(0.46);

const filters: Readonly<Record<Exclude<FilterName, 'nearest'>, Filter>> = {
  box: { reach: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { reach: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: {
    reach: 1,
    weight: (x) => {
      const angle = Math.PI * Math.abs(x);
      if (angle === 0) return 1;
      if (Math.abs(x) >= 1) return 0;
      return (Math.sin(angle) / angle) * (HAMMING_BASE + HAMMING_WAVE * Math.cos(angle));
    },
  },
  bicubic: {
    reach: 2,
    weight: (given) => {
      // Keys' kernel with a = -0.5, factored as Pillow does, so that the last bits are equal.
      const a = -0.5;
      const x = Math.abs(given);
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    },
  },
  lanczos: { reach: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI);
}

/** Weights are whole numbers with this many bits behind the point. */
const PRECISION_BITS = 22;
const HALF = 1 << (PRECISION_BITS - 1);
const CHANNELS = 3;

/**
 * Resizes an image as Pillow does, with the same pixels: a filter along rows and then along columns, which widens when an
 * image shrinks, with weights in fixed point and results of 8 bits after each.
 */
export function resize(
  image: RgbImage,
  { width, height }: { readonly width: number; readonly height: number },
  filter: FilterName,
): RgbImage {
  if (width === image.width && height === image.height) return image;
  if (filter === 'nearest') return resizeNearest(image, width, height);
  const wide = width === image.width ? image : resizeRows(image, width, filters[filter]);
  return height === image.height ? wide : resizeColumns(wide, height, filters[filter]);
}

/** The pixels that make one pixel, and their weights. */
interface Window {
  readonly start: number;
  readonly weights: Int32Array;
}

function windowsOf(from: number, to: number, filter: Filter): readonly Window[] {
  const scale = from / to;
  const stretch = Math.max(1, scale);
  const support = filter.reach * stretch;
  return Array.from({ length: to }, (_, index) => {
    const center = (index + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(from, Math.trunc(center + support + 0.5));
    const step = 1 / stretch;
    const raw = Array.from({ length: end - start }, (_, x) =>
      filter.weight((x + start - center + 0.5) * step),
    );
    const sum = raw.reduce((total, each) => total + each, 0);
    const weights = Int32Array.from(raw, (each) => {
      const fixed = (sum === 0 ? each : each / sum) * 2 ** PRECISION_BITS;
      return Math.trunc(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    });
    return { start, weights };
  });
}

/** Shape: [h, w, 3] -> [h, width, 3]. */
function resizeRows(
  { width: from, height, data }: RgbImage,
  width: number,
  filter: Filter,
): RgbImage {
  const result = new Uint8ClampedArray(height * width * CHANNELS);
  const windows = windowsOf(from, width, filter);
  for (let y = 0; y < height; y++) {
    for (const [x, { start, weights }] of windows.entries()) {
      let at = (y * from + start) * CHANNELS;
      let [red, green, blue] = [HALF, HALF, HALF];
      for (const weight of weights) {
        red += (data[at] ?? 0) * weight;
        green += (data[at + 1] ?? 0) * weight;
        blue += (data[at + 2] ?? 0) * weight;
        at += CHANNELS;
      }
      const to = (y * width + x) * CHANNELS;
      result[to] = red >> PRECISION_BITS;
      result[to + 1] = green >> PRECISION_BITS;
      result[to + 2] = blue >> PRECISION_BITS;
    }
  }
  return { width, height, data: new Uint8Array(result.buffer) };
}

/** Shape: [h, w, 3] -> [height, w, 3]. */
function resizeColumns(
  { width, height: from, data }: RgbImage,
  height: number,
  filter: Filter,
): RgbImage {
  const row = width * CHANNELS;
  const result = new Uint8ClampedArray(height * row);
  const sums = new Int32Array(row);
  for (const [y, { start, weights }] of windowsOf(from, height, filter).entries()) {
    sums.fill(HALF);
    for (const [index, weight] of weights.entries()) {
      const begin = (start + index) * row;
      for (let x = 0; x < row; x++) sums[x] = (sums[x] ?? 0) + (data[begin + x] ?? 0) * weight;
    }
    for (let x = 0; x < row; x++) result[y * row + x] = (sums[x] ?? 0) >> PRECISION_BITS;
  }
  return { width, height, data: new Uint8Array(result.buffer) };
}

function resizeNearest(
  { width: from, height: rows, data }: RgbImage,
  width: number,
  height: number,
): RgbImage {
  const columns = nearest(from, width);
  const result = new Uint8Array(height * width * CHANNELS);
  let to = 0;
  for (const y of nearest(rows, height)) {
    for (const x of columns) {
      const at = (y * from + x) * CHANNELS;
      result.set(data.subarray(at, at + CHANNELS), to);
      to += CHANNELS;
    }
  }
  return { width, height, data: result };
}

/** Which pixel is at the place of each new one. Places are summed up, as Pillow does, so that roundings are equal. */
function nearest(from: number, to: number): readonly number[] {
  const scale = from / to;
  let place = scale * 0.5;
  return Array.from({ length: to }, () => {
    const index = Math.min(from - 1, Math.floor(place));
    place += scale;
    return index;
  });
}
