import { join } from 'node:path';
import { checkOptions, DataError, option, type OptionRules } from '@shardwise/core/extend';
import { Tokenizer, type TokenizerFiles } from '../tokenizer/tokenizer.ts';
import { jsonOf, parseJson, textOf } from './json-file.ts';

const folderRules: OptionRules<{ readonly folder: string }> = {
  folder: option.required(option.nonEmptyText),
};

/**
 * Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and, where they are, `tokenizer_config.json`,
 * `special_tokens_map.json` and `chat_template.jinja`. Node only. Throws DataError if `tokenizer.json` is missing or a
 * file is no JSON, and ConfigError for a tokenizer that is not known here.
 */
export async function loadTokenizer(folder: string): Promise<Tokenizer> {
  checkOptions('loadTokenizer', { folder }, folderRules);
  const path = join(folder, 'tokenizer.json');
  const text = await textOf(path);
  if (text === undefined) throw noTokenizer(path);
  const config = await jsonOf(join(folder, 'tokenizer_config.json'));
  const specialTokensMap = await jsonOf(join(folder, 'special_tokens_map.json'));
  const chatTemplate = await textOf(join(folder, 'chat_template.jinja'));
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
