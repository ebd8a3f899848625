import {
  checkOptions,
  type NDArray,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { Rows } from '../datasets/rows.ts';
import type { ImageProcessor } from './image-processor.ts';
import type { ImageDecoder } from './rgb-image.ts';

/** The file of an image, and its class. */
export interface ImageFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The number of the class, such as the place of its folder among all folders. */
  readonly label: number;
}

/** An image as models take it. Shape: pixelValues [3, H, W], labels []. */
export type ImageSample = {
  readonly pixelValues: NDArray<'f32'>;
  readonly labels: NDArray<'i32'>;
};

/** Options of `processImages`. */
export interface ProcessImagesOptions {
  /** `loadImageProcessor(folder)`, or what makes values of pixels in another way. */
  readonly processor: Pick<ImageProcessor, 'process'>;
  /** `decodeImage` of `@shardwise/data/node`, or in a page that of `@shardwise/data`. */
  readonly decode: ImageDecoder;
  /** The most pixels of an image. Default: that of `decode`. */
  readonly maxPixels?: number;
}

const processRules: OptionRules<ProcessImagesOptions> = {
  processor: option.required(option.checkedLater()),
  decode: option.required(option.callback()),
  maxPixels: option.integer(1),
};

/**
 * Rows of images as models take them, decoded and processed when they are needed. The row is read again in each epoch. An
 * error of a row names its file.
 */
export function processImages(
  images: Rows<ImageFile>,
  options: ProcessImagesOptions,
): Rows<ImageSample> {
  checkOptions('processImages', options, processRules);
  const { processor, decode, maxPixels } = options;
  return {
    length: images.length,
    get: async (index) => {
      const { bytes, label } = await images.get(index);
      const name = images.nameOf(index);
      const image = await decode(bytes, {
        name,
        ...(maxPixels === undefined ? {} : { maxPixels }),
      });
      return {
        pixelValues: processor.process(image),
        labels: ndArray(Int32Array.of(label), []),
      };
    },
    nameOf: (index) => images.nameOf(index),
  };
}
