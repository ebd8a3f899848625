import { DataError, type ModelFolder, pathIn } from '@shardwise/core/extend';
import { Tokenizer, type TokenizerFiles } from '../tokenizer/tokenizer.ts';
import { folderOf, jsonOf, parseJson } from './json-file.ts';

const NAME = 'tokenizer.json';

/**
 * Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and, where they are, `tokenizer_config.json`,
 * `special_tokens_map.json` and `chat_template.jinja`. The folder is a path, a URL of http or https, an address such as
 * `s3://bucket/models/small`, or another place of such a folder. Node only. Throws DataError if `tokenizer.json` is missing
 * or a file is no JSON, and ConfigError for a tokenizer that is not known here.
 */
export async function loadTokenizer(place: string | ModelFolder): Promise<Tokenizer> {
  const folder = folderOf('loadTokenizer', place);
  const path = pathIn(folder, NAME);
  const text = await folder.readText(NAME);
  if (text === undefined) throw noTokenizer(path);
  const config = await jsonOf(folder, 'tokenizer_config.json');
  const specialTokensMap = await jsonOf(folder, 'special_tokens_map.json');
  const chatTemplate = await folder.readText('chat_template.jinja');
  const files: TokenizerFiles = {
    name: path,
    config,
    specialTokensMap,
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
  };
  return Tokenizer.fromJson(parseJson(text, path), files);
}

function noTokenizer(path: string): DataError {
  return new DataError(
    {
      asked: `to read ${path}`,
      found: 'no such file',
      todo: "Give a folder with tokenizer.json; transformers writes it with tokenizer.save_pretrained('folder')",
    },
    { path },
  );
}
