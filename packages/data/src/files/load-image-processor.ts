import { DataError, type ModelFolder, pathIn } from '@shardwise/core/extend';
import { ImageProcessor } from '../images/image-processor.ts';
import { jsonOf } from '../tokenizer/json-file.ts';
import { folderOf } from './folder-of.ts';

const NAME = 'preprocessor_config.json';

/**
 * Reads the image processor of a Hugging Face folder, `preprocessor_config.json`. The folder is a path, an address, or
 * another place of such a folder, as `loadTokenizer` takes it. Node only. Throws DataError if there is
 * none or it is no JSON, and ConfigError for what is not known here.
 */
export async function loadImageProcessor(place: string | ModelFolder): Promise<ImageProcessor> {
  const folder = folderOf('loadImageProcessor', place);
  const path = pathIn(folder, NAME);
  const json = await jsonOf(folder, NAME);
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
