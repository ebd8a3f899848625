/** The special tokens, before the tokens of the bytes. */
const SPECIAL = ['<pad>', '<s>', '</s>'] as const;

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

/** The contents of tokenizer.json: each byte is a token, so no vocabulary has to be trained. */
export const tokenizerJson = {
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

/** The contents of tokenizer_config.json, with a template for conversations. */
export const tokenizerConfig = {
  tokenizer_class: 'PreTrainedTokenizerFast',
  bos_token: '<s>',
  eos_token: '</s>',
  pad_token: '<pad>',
  chat_template:
    "{% for message in messages %}{% if message['role'] == 'user' %}<s>{{ message['content'] }}\n" +
    "{% else %}{{ message['content'] }}</s>{% endif %}{% endfor %}",
};
