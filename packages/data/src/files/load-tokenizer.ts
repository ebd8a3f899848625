import { checkOptions, type ModelFolder, option, type OptionRules } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { loadTokenizer as loadFromFolder } from '../tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

const placeRules: OptionRules<{ readonly place: string | ModelFolder }> = {
  place: option.required(
    option.either(option.nonEmptyText, option.object<ModelFolder>('a folder of a model')),
  ),
};

/**
 * Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and, where they are, `tokenizer_config.json`,
 * `special_tokens_map.json` and `chat_template.jinja`. `place` is its path, or another place of such a folder. Node only.
 * Throws DataError if `tokenizer.json` is missing or a file is no JSON, and ConfigError for a tokenizer that is not known
 * here.
 */
export async function loadTokenizer(place: string | ModelFolder): Promise<Tokenizer> {
  checkOptions('loadTokenizer', { place }, placeRules);
  return loadFromFolder(typeof place === 'string' ? diskFolder(place) : place);
}
