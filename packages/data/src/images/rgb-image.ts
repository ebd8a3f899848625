import { DataError, option, type OptionRules } from '@shardwise/core/extend';

/** The pixels of an image. Shape: data [height, width, 3], red, green and blue from 0 to 255. */
export interface RgbImage {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

/** Options of `decodeImage`. */
export interface DecodeImageOptions {
  /** The most pixels, height times width. A file of a few bytes can ask for gigabytes. Default: 2^26, which takes 192 MiB. */
  readonly maxPixels?: number;
  /** What messages call the image. Default: `an image`. */
  readonly name?: string;
}

/** Decodes the bytes of a file of an image. */
export type ImageDecoder = (
  bytes: Uint8Array<ArrayBuffer>,
  options?: DecodeImageOptions,
) => Promise<RgbImage>;

export const decodeRules: OptionRules<DecodeImageOptions> = {
  maxPixels: option.integer(1),
  name: option.nonEmptyText,
};

export const MAX_PIXELS: number = 2 ** 26;

export function tooManyPixels(
  name: string,
  { width, height }: { readonly width: number; readonly height: number },
  maxPixels: number,
): DataError {
  return new DataError(
    {
      asked: `to decode ${name}`,
      found: `${height} x ${width} pixels`,
      todo: `Give images of at most ${maxPixels} pixels, or raise maxPixels if you trust the file`,
    },
    { name, width, height, maxPixels },
  );
}

export function undecodable(name: string, cause: unknown): DataError {
  return new DataError(
    {
      asked: `to decode ${name}`,
      found: cause instanceof Error ? cause.message : String(cause),
      todo: 'Give a whole file of a JPEG, PNG or WebP image, or remove it',
    },
    { name },
    { cause },
  );
}
