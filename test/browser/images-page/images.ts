/** The bytes of a file, which a page is to decode. */
export interface EncodedImage {
  readonly name: string;
  readonly base64: string;
  readonly maxPixels?: number;
}

/** The pixels of a file, or why there are none. */
export type DecodedImage =
  | {
      readonly name: string;
      readonly width: number;
      readonly height: number;
      /** Shape: [H, W, 3]. */
      readonly pixels: readonly number[];
    }
  | { readonly name: string; readonly error: string };
