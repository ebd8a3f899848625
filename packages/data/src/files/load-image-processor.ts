import { join } from 'node:path';
import { checkOptions, DataError, option } from '@shardwise/core/extend';
import { ImageProcessor } from '../images/image-processor.ts';
import { jsonOf } from './json-file.ts';

/**
 * Reads the image processor of a Hugging Face folder, `preprocessor_config.json`. Node only. Throws DataError if there is
 * none or it is no JSON, and ConfigError for what is not known here.
 */
export async function loadImageProcessor(folder: string): Promise<ImageProcessor> {
  checkOptions('loadImageProcessor', { folder }, { folder: option.required(option.nonEmptyText) });
  const path = join(folder, 'preprocessor_config.json');
  const json = await jsonOf(path);
  if (json !== undefined) return ImageProcessor.fromJson(json, { name: path });
  throw new DataError(
    {
      asked: `to read ${path}`,
      found: 'no such file',
      todo: "Give a folder with preprocessor_config.json; transformers writes it with processor.save_pretrained('folder')",
    },
    { path },
  );
}
