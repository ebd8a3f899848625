import { decodeImage } from '@shardwise/data';
import type { DecodedImage, EncodedImage } from './images.ts';

/** Decodes an image by the browser. What it cannot decode is the text of the error. */
export async function decode({ name, base64, maxPixels }: EncodedImage): Promise<DecodedImage> {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.codePointAt(0) ?? 0);
  try {
    const { width, height, data } = await decodeImage(bytes, {
      name,
      ...(maxPixels === undefined ? {} : { maxPixels }),
    });
    return { name, width, height, pixels: [...data] };
  } catch (error) {
    return { name, error: String(error) };
  }
}
