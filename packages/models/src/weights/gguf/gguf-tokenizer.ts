import { CheckpointError, type ModelFolder } from '@shardwise/core/extend';
import { type GgufFile, type GgufValue, readGguf } from './gguf-file.ts';

/** The tokenizer of a GGUF file in the form of Hugging Face's files. */
export interface GgufTokenizer {
  /** The contents of tokenizer.json. */
  readonly tokenizer: Readonly<Record<string, unknown>>;
  /** The contents of tokenizer_config.json: the special tokens, and the chat template if the file has one. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** The types of tokens (llama.cpp's token_type). */
const CONTROL_TOKEN = 3;
const USER_TOKEN = 4;

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };

function split(pattern: string): object {
  return { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
}

/** How texts are cut before byte pairs are merged, by the name in `tokenizer.ggml.pre`. */
const preTokenizers: ReadonlyMap<string, readonly object[]> = new Map<string, readonly object[]>([
  ['gpt-2', [{ ...byteLevel, use_regex: true }]],
  [
    'smollm',
    [
      { type: 'Digits', individual_digits: true },
      { ...byteLevel, use_regex: true },
    ],
  ],
  [
    'llama-bpe',
    [
      split(
        String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
      ),
      { ...byteLevel, use_regex: false },
    ],
  ],
  [
    'qwen2',
    [
      split(
        String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
      ),
      { ...byteLevel, use_regex: false },
    ],
  ],
]);

/**
 * Makes a tokenizer.json of the vocabulary of a GGUF file, and a tokenizer_config.json with its chat template. Throws
 * CheckpointError for a damaged file, and for a kind of tokenizer that it does not know, which it names.
 */
export async function ggufTokenizer(folder: ModelFolder, name: string): Promise<GgufTokenizer> {
  const file = await readGguf(folder, name);
  const read = reading(file);
  const kind = read.text('model');
  if (kind !== 'gpt2') {
    throw refusal(
      file.path,
      `a tokenizer of the kind ${JSON.stringify(kind)}`,
      'Use a file with byte-level pairs ("gpt2"), or a tokenizer.json',
    );
  }
  const pre = read.text('pre');
  const steps = preTokenizers.get(pre);
  if (steps === undefined) {
    throw refusal(
      file.path,
      `texts cut as by ${JSON.stringify(pre)}`,
      `Use a file with ${[...preTokenizers.keys()].join(', ')}, or a tokenizer.json`,
    );
  }
  const tokens = read.list('tokens', (value): value is string => typeof value === 'string');
  const types = read.list('token_type', (value): value is number => typeof value === 'number');
  const merges = read.list('merges', (value): value is string => typeof value === 'string');
  const isSpecial = (index: number): boolean => types[index] === CONTROL_TOKEN;
  const added = tokens.flatMap((content, id) =>
    isSpecial(id) || types[id] === USER_TOKEN
      ? [
          {
            id,
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: isSpecial(id),
          },
        ]
      : [],
  );
  const specials = Object.fromEntries(
    ['bos', 'eos', 'unk', 'pad'].flatMap((short) => {
      const id = file.metadata.get(`tokenizer.ggml.${longNames.get(short) ?? short}_token_id`);
      const token = typeof id === 'number' ? tokens[id] : undefined;
      return token === undefined ? [] : [[`${short}_token`, token]];
    }),
  );
  const template = file.metadata.get('tokenizer.chat_template');
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: added,
      normalizer: pre === 'qwen2' ? { type: 'NFC' } : null,
      pre_tokenizer: { type: 'Sequence', pretokenizers: steps },
      post_processor: postProcessor(file, tokens),
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges: merges.map((merge) => merge.split(' ')),
      },
    },
    config: { ...specials, ...(typeof template === 'string' ? { chat_template: template } : {}) },
  };
}

const longNames: ReadonlyMap<string, string> = new Map([
  ['unk', 'unknown'],
  ['pad', 'padding'],
]);

/** Puts the first token before each text, if the file says so. */
function postProcessor({ metadata, path }: GgufFile, tokens: readonly string[]): object {
  if (metadata.get('tokenizer.ggml.add_eos_token') === true) {
    throw refusal(path, 'a tokenizer that ends each text with a token', 'Use a tokenizer.json');
  }
  if (metadata.get('tokenizer.ggml.add_bos_token') !== true)
    return { ...byteLevel, trim_offsets: false, use_regex: true };
  const id = metadata.get('tokenizer.ggml.bos_token_id');
  const bos = typeof id === 'number' ? tokens[id] : undefined;
  if (bos === undefined)
    throw refusal(path, 'no first token, which each text is to have', 'Use a tokenizer.json');
  const first = { SpecialToken: { id: bos, type_id: 0 } };
  const text = { Sequence: { id: 'A', type_id: 0 } };
  return {
    type: 'TemplateProcessing',
    single: [first, text],
    pair: [first, text, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: { [bos]: { id: bos, ids: [id], tokens: [bos] } },
  };
}

interface Reading {
  text(key: string): string;
  list<T extends GgufValue>(key: string, fits: (value: GgufValue) => value is T): readonly T[];
}

/** Reads the metadata of a tokenizer. Throws CheckpointError for those that are missing or of another type. */
function reading({ metadata, path }: GgufFile): Reading {
  const valueOf = (key: string): GgufValue | undefined => metadata.get(`tokenizer.ggml.${key}`);
  const missing = (key: string): CheckpointError =>
    refusal(
      path,
      `no "tokenizer.ggml.${key}" of the right type`,
      'Use a file of a whole model, or a tokenizer.json',
    );
  return {
    text(key) {
      const value = valueOf(key);
      if (typeof value !== 'string') throw missing(key);
      return value;
    },
    list(key, fits) {
      const value = valueOf(key);
      if (!Array.isArray(value)) throw missing(key);
      const items: readonly GgufValue[] = value;
      const fitting = items.filter(fits);
      if (fitting.length !== items.length) throw missing(key);
      return fitting;
    },
  };
}

function refusal(path: string, found: string, todo: string): CheckpointError {
  return new CheckpointError({ asked: `to make a tokenizer of ${path}`, found, todo }, { path });
}
