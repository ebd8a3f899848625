import type { ModelFolder } from '@shardwise/core/extend';
import { loadTokenizer as loadFromFolder } from '../tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { folderOf } from './folder-of.ts';

/**
 * Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and, where they are, `tokenizer_config.json`,
 * `special_tokens_map.json` and `chat_template.jinja`. The folder is a path, a URL of http or https, an address such as
 * `s3://bucket/models/small`, the name of a repository of the hub, such as `organization/model`, or another folder. Node only. Throws DataError if `tokenizer.json` is missing
 * or a file is no JSON, and ConfigError for a tokenizer that is not known here.
 */
export async function loadTokenizer(place: string | ModelFolder): Promise<Tokenizer> {
  return loadFromFolder(folderOf('loadTokenizer', place));
}
