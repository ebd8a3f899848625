import { DataError, type ModelFolder, pathIn } from '@shardwise/core/extend';
import { jsonOf, parseJson } from './json-file.ts';
import { Tokenizer, type TokenizerFiles } from './tokenizer.ts';

const NAME = 'tokenizer.json';

/**
 * Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and, where they are, `tokenizer_config.json`,
 * `special_tokens_map.json` and `chat_template.jinja`. In a page, `pickedFolder(files)` of `@shardwise/models` is such a
 * folder. Throws DataError if `tokenizer.json` is missing or a file is no JSON, and ConfigError for a tokenizer that is not
 * known here.
 */
export async function loadTokenizer(folder: ModelFolder): Promise<Tokenizer> {
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
