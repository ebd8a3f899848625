import { type ImageSample, processImages, ImageProcessor, Stream } from '@shardwise/data';
import { decodeImage, readImageFolder } from '@shardwise/data/node';

/** The images of a folder, shuffled and processed. */
export async function images(folder: string): Promise<Stream<ImageSample>> {
  const processor = ImageProcessor.fromJson({
    image_processor_type: 'ViTImageProcessor',
    size: { height: 6, width: 5 },
  });
  const rows = processImages(await readImageFolder(folder), { processor, decode: decodeImage });
  return Stream.ofRows(rows, { shuffle: true });
}
