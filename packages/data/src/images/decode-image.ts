import { checkOptions } from '@shardwise/core/extend';
import {
  type DecodeImageOptions,
  decodeRules,
  MAX_PIXELS,
  type RgbImage,
  tooManyPixels,
  undecodable,
} from './rgb-image.ts';

/**
 * Decodes the bytes of an image by the browser, also in a worker of a page. It is turned as EXIF says, and not converted by
 * a color profile; what is transparent keeps its colors as far as the browser's canvas does. In Node, `decodeImage` of
 * `@shardwise/data/node` does this. Throws DataError, with the image's name, for what the browser cannot decode, and for
 * too many pixels. Shape: -> data [H, W, 3].
 */
export async function decodeImage(
  bytes: Uint8Array<ArrayBuffer>,
  options: DecodeImageOptions = {},
): Promise<RgbImage> {
  checkOptions('decodeImage', options, decodeRules);
  const { maxPixels = MAX_PIXELS, name = 'an image' } = options;
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(new Blob([bytes]), {
      colorSpaceConversion: 'none',
      imageOrientation: 'from-image',
      premultiplyAlpha: 'none',
    });
  } catch (cause) {
    throw undecodable(name, cause);
  }
  try {
    const { width, height } = bitmap;
    if (width * height > maxPixels) throw tooManyPixels(name, { width, height }, maxPixels);
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    if (context === null) throw undecodable(name, 'no canvas of two dimensions in this browser');
    context.drawImage(bitmap, 0, 0);
    const { data: rgba } = context.getImageData(0, 0, width, height);
    const data = new Uint8Array(width * height * 3);
    for (let from = 0, to = 0; from < rgba.length; from += 4, to += 3) {
      data.set(rgba.subarray(from, from + 3), to);
    }
    return { width, height, data };
  } finally {
    bitmap.close();
  }
}
