import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkOptions, DataError, option, type OptionRules } from '@shardwise/core/extend';
import { Tokenizer, type TokenizerFiles } from '../tokenizer/tokenizer.ts';

/** More bytes than the file of any tokenizer has. It limits what is read of a file that may come from anywhere. */
const MAX_BYTES = 256 * 1024 * 1024;

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
  return Tokenizer.fromJson(parse(text, path), files);
}

async function jsonOf(path: string): Promise<unknown> {
  const text = await textOf(path);
  return text === undefined ? undefined : parse(text, path);
}

function parse(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DataError(
      {
        asked: `to read ${path}`,
        found: `no JSON: ${cause instanceof Error ? cause.message : String(cause)}`,
        todo: 'Fetch the file again; it may have been cut off, or be a pointer of git-lfs',
      },
      { path },
      { cause },
    );
  }
}

/** The text of a file. Undefined if there is no such file. */
async function textOf(path: string): Promise<string | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  if (bytes.length <= MAX_BYTES) return new TextDecoder().decode(bytes);
  throw new DataError(
    {
      asked: `to read ${path}`,
      found: `${bytes.length} bytes`,
      todo: `Give a file of at most ${MAX_BYTES} bytes`,
    },
    { path, bytes: bytes.length },
  );
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
