import { checkOptions, ConfigError } from '@shardwise/core/extend';
import type Sharp from 'sharp';
import {
  type DecodeImageOptions,
  decodeRules,
  MAX_PIXELS,
  type RgbImage,
  tooManyPixels,
  undecodable,
} from '../images/rgb-image.ts';

/** The formats that are decoded. The library knows others, such as SVG, which are programs more than images. */
const FORMATS = ['jpeg', 'png', 'webp'];

/**
 * Decodes a JPEG, PNG or WebP file by `sharp`, which has to be installed beside this package. Pixels are those that Pillow
 * decodes: turned as EXIF says, without transparency, and without conversion by a color profile. Node only; a page has
 * `decodeImage` of `@shardwise/data`. Throws DataError, with the image's name, for a file that is cut off or damaged, of
 * another format, or of too many pixels. Shape: -> data [H, W, 3].
 */
export async function decodeImage(
  bytes: Uint8Array<ArrayBuffer>,
  options: DecodeImageOptions = {},
): Promise<RgbImage> {
  checkOptions('decodeImage', options, decodeRules);
  const { maxPixels = MAX_PIXELS, name = 'an image' } = options;
  const sharp = await loadSharp();
  // Pixels are counted here, so that the message has them.
  const image = await told(name, async () =>
    sharp(bytes, { failOn: 'error', limitInputPixels: false, ignoreIcc: true }),
  );
  const { format, space, width, height } = await told(name, () => image.metadata());
  if (!FORMATS.includes(format)) throw undecodable(name, `an image of the format ${format}`);
  if (space === 'cmyk') throw undecodable(name, 'colors for printing (CMYK)');
  if (width * height > maxPixels) throw tooManyPixels(name, { width, height }, maxPixels);
  const { data, info } = await told(name, () =>
    image
      .autoOrient()
      .toColourspace('srgb')
      .removeAlpha()
      .raw()
      .toBuffer({ resolveWithObject: true }),
  );
  return { width: info.width, height: info.height, data };
}

async function told<T>(name: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    throw undecodable(name, cause);
  }
}

async function loadSharp(): Promise<typeof Sharp> {
  try {
    return (await import('sharp')).default;
  } catch (cause) {
    throw new ConfigError(
      {
        asked: 'to decode images in Node',
        found: `no package sharp: ${cause instanceof Error ? cause.message : String(cause)}`,
        todo: 'Install it: npm install sharp',
      },
      {},
      { cause },
    );
  }
}
