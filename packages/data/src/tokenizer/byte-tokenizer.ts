import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { Tokenizer } from './tokenizer.ts';

/** Options of `byteTokenizer`. */
export interface ByteTokenizerOptions {
  /** How conversations are written, in Jinja's language. Default: a user's text, its line's end, and the answer. */
  readonly chatTemplate?: string;
}

const byteRules: OptionRules<ByteTokenizerOptions> = { chatTemplate: option.nonEmptyText };

/** The special tokens, before the tokens of the bytes, with RoBERTa's numbers. */
const SPECIAL = ['<s>', '<pad>', '</s>', '<mask>'] as const;

const CHAT_TEMPLATE =
  "{% for message in messages %}{% if message['role'] == 'assistant' %}{{ message['content'] }}</s>" +
  "{% else %}<s>{{ message['content'] }}\n{% endif %}{% endfor %}";

/**
 * A tokenizer whose tokens are the bytes of a text in UTF-8, for models that start from nothing: no vocabulary has to be
 * trained, and every text has tokens. The tokens 0 to 3 are `<s>`, `<pad>`, `</s>` and `<mask>`, and a byte has its value
 * plus 4.
 */
export function byteTokenizer(options: ByteTokenizerOptions = {}): Tokenizer {
  checkOptions('byteTokenizer', options, byteRules);
  const { chatTemplate = CHAT_TEMPLATE } = options;
  return Tokenizer.fromJson(tokenizerJson(), {
    config: {
      tokenizer_class: 'PreTrainedTokenizerFast',
      bos_token: '<s>',
      eos_token: '</s>',
      pad_token: '<pad>',
      mask_token: '<mask>',
      chat_template: chatTemplate,
    },
  });
}

/**
 * The characters that stand for the bytes in vocabularies of GPT-2: printable ones stand for themselves, and the others
 * for the characters from U+0100 on.
 */
function byteCharacters(): string[] {
  const isPrintable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad && byte <= 0xff);
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(isPrintable(byte) ? byte : next++),
  );
}

function tokenizerJson() {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: SPECIAL.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: {
      type: 'ByteLevel',
      add_prefix_space: false,
      trim_offsets: true,
      use_regex: false,
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries([...SPECIAL, ...byteCharacters()].map((text, id) => [text, id])),
      merges: [],
    },
  };
}
