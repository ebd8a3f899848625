import { checkOptions, type NDArray, ndArray, option } from '@shardwise/core/extend';
import {
  parseProcessorConfig,
  type ProcessedSize,
  type ProcessorSteps,
} from './processor-config.ts';
import { resize } from './resize.ts';
import { MAX_PIXELS, type RgbImage, tooManyPixels } from './rgb-image.ts';

const COLORS = 3;

/**
 * Makes the inputs of a model of images: an image processor of transformers, made of the content of a
 * `preprocessor_config.json`. `ViTImageProcessor` (of ViT) and `ConvNextImageProcessor` (of ResNet) are known. Values are
 * those of transformers with Pillow and NumPy, bit for bit. Its processors on torchvision resize in another way, which can
 * change a pixel by one of 255 levels.
 */
export class ImageProcessor {
  readonly #steps: ProcessorSteps;

  private constructor(json: unknown, name: string) {
    this.#steps = parseProcessorConfig(json, name);
  }

  /** Throws ConfigError for keys and values that are not known, because images would be made in another way without a word. */
  static fromJson(json: unknown, options: { readonly name?: string } = {}): ImageProcessor {
    checkOptions('an image processor', options, { name: option.nonEmptyText });
    return new ImageProcessor(json, options.name ?? 'preprocessor_config.json');
  }

  /** Shape: image [H, W, 3] -> [3, h, w], f32. */
  process(image: RgbImage): NDArray<'f32'> {
    const { resize: resizing, centerCrop } = this.#steps;
    let result = image;
    if (resizing !== undefined) {
      const { size, filter, cropShare } = resizing;
      if (cropShare === undefined || !('shortestEdge' in size)) {
        result = resize(result, sizeFor(result, size), filter);
      } else {
        const { shortestEdge: edge } = size;
        const whole = { shortestEdge: Math.trunc(edge / cropShare) };
        result = resize(result, sizeFor(result, whole), filter);
        result = crop(result, { height: edge, width: edge });
      }
    }
    if (centerCrop !== undefined) result = crop(result, centerCrop);
    return this.#valuesOf(result);
  }

  /** Shape: image [H, W, 3] -> [3, H, W]. */
  #valuesOf({ width, height, data }: RgbImage): NDArray<'f32'> {
    const { rescaleFactor, normalize } = this.#steps;
    const plane = width * height;
    const values = new Float32Array(COLORS * plane);
    for (let color = 0; color < COLORS; color++) {
      // NumPy rescales in f64 and normalizes in f32. There are 256 levels only.
      const levels = Float32Array.from({ length: 256 }, (_, level) => {
        const value = Math.fround(rescaleFactor === undefined ? level : level * rescaleFactor);
        if (normalize === undefined) return value;
        const mean = Math.fround(normalize.mean[color] ?? 0);
        return Math.fround(value - mean) / Math.fround(normalize.std[color] ?? 1);
      });
      for (let i = 0; i < plane; i++) {
        values[color * plane + i] = levels[data[i * COLORS + color] ?? 0] ?? 0;
      }
    }
    return ndArray(values, [COLORS, height, width]);
  }
}

function sizeFor(
  { width, height }: RgbImage,
  size: ProcessedSize,
): { readonly width: number; readonly height: number } {
  if (!('shortestEdge' in size)) return size;
  const { shortestEdge: short } = size;
  const long = Math.trunc((short * Math.max(width, height)) / Math.min(width, height));
  const wanted = width <= height ? { width: short, height: long } : { width: long, height: short };
  if (short * long > MAX_PIXELS) throw tooManyPixels('a resized image', wanted, MAX_PIXELS);
  return wanted;
}

/** Keeps the middle of an image. What is beyond its edges is black. */
function crop(
  image: RgbImage,
  { width, height }: { readonly width: number; readonly height: number },
): RgbImage {
  if (width === image.width && height === image.height) return image;
  const [top, left] = [startOf(image.height, height), startOf(image.width, width)];
  const data = new Uint8Array(height * width * COLORS);
  const [from, to] = [Math.max(0, left), Math.min(image.width, left + width)];
  for (let y = Math.max(0, -top); y < Math.min(height, image.height - top); y++) {
    const row = (y + top) * image.width;
    const part = image.data.subarray((row + from) * COLORS, (row + to) * COLORS);
    data.set(part, (y * width + from - left) * COLORS);
  }
  return { width, height, data };
}

/** Where a crop begins in an image along one side. A side that is too small gets the odd pixel first. */
function startOf(whole: number, part: number): number {
  return Math.floor((whole - part) / 2);
}
