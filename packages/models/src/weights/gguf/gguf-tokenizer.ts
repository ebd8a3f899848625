import { CheckpointError, type ModelFolder } from '@shardwise/core/extend';
import { type GgufFile, type GgufValue, readGguf } from './gguf-file.ts';
import { sentencepieceParts } from './gguf-pieces.ts';

/** The tokenizer of a GGUF file in the form of Hugging Face's files. */
export interface GgufTokenizer {
  /** The contents of tokenizer.json. */
  readonly tokenizer: Readonly<Record<string, unknown>>;
  /** The contents of tokenizer_config.json: the special tokens, and the chat template if the file has one. */
  readonly config: Readonly<Record<string, unknown>>;
}

/** The types of tokens (llama.cpp's token_type). */
const UNKNOWN_TOKEN = 2;
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
  const { metadata } = file;
  const read = reading(file);
  const kind = read.text('model');
  const tokens = read.list('tokens', (value): value is string => typeof value === 'string');
  const types = read.list('token_type', (value): value is number => typeof value === 'number');
  const specials = specialTokens(file, tokens);
  const template = metadata.get('tokenizer.chat_template');
  return {
    tokenizer: {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: addedTokens(tokens, types),
      ...partsOf(kind, file, { tokens, types, unknown: specials['unk_token'] }),
      post_processor: postProcessor(file, kind, tokens),
    },
    config: { ...specials, ...(typeof template === 'string' ? { chat_template: template } : {}) },
  };
}

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly unknown: string | undefined;
}

/** The parts of a tokenizer.json by which the tokens of a text are found. */
function partsOf(kind: string, file: GgufFile, { tokens, types, unknown }: Vocabulary): object {
  const read = reading(file);
  if (kind === 'gpt2') {
    const merges = read.list('merges', (value): value is string => typeof value === 'string');
    return byteLevelParts(file.path, read.text('pre'), tokens, merges);
  }
  if (kind !== 'llama') {
    throw refusal(
      file.path,
      `a tokenizer of the kind ${JSON.stringify(kind)}`,
      'Use a file with byte-level pairs ("gpt2") or with those of sentencepiece ("llama"), or a tokenizer.json',
    );
  }
  const { metadata, path } = file;
  for (const key of ['precompiled_charsmap', 'remove_extra_whitespaces']) {
    const value = metadata.get(`tokenizer.ggml.${key}`);
    if (value === undefined || value === false) continue;
    throw refusal(path, `a tokenizer with "${key}"`, 'Use a tokenizer.json');
  }
  const scores = read.list('scores', (value): value is number => typeof value === 'number');
  if (scores.length !== tokens.length || types.length !== tokens.length) {
    throw refusal(
      path,
      `${tokens.length} tokens with ${scores.length} scores and ${types.length} types`,
      'Use another copy of the file',
    );
  }
  const addsSpace = metadata.get('tokenizer.ggml.add_space_prefix') !== false;
  return sentencepieceParts({ tokens, scores, types, addsSpace }, unknown);
}

function byteLevelParts(
  path: string,
  pre: string,
  tokens: readonly string[],
  merges: readonly string[],
): object {
  const steps = preTokenizers.get(pre);
  if (steps === undefined) {
    throw refusal(
      path,
      `texts cut as by ${JSON.stringify(pre)}`,
      `Use a file with ${[...preTokenizers.keys()].join(', ')}, or a tokenizer.json`,
    );
  }
  return {
    normalizer: pre === 'qwen2' ? { type: 'NFC' } : null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: steps },
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
  };
}

/** The tokens that are found in a text before anything else. */
function addedTokens(tokens: readonly string[], types: readonly number[]): readonly object[] {
  return tokens.flatMap((content, id) => {
    const special = types[id] === CONTROL_TOKEN || types[id] === UNKNOWN_TOKEN;
    if (!special && types[id] !== USER_TOKEN) return [];
    return [
      { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special },
    ];
  });
}

/** The special tokens of tokenizer_config.json. */
function specialTokens(
  { metadata }: GgufFile,
  tokens: readonly string[],
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    ['bos', 'eos', 'unk', 'pad'].flatMap((short) => {
      const id = metadata.get(`tokenizer.ggml.${longNames.get(short) ?? short}_token_id`);
      const token = typeof id === 'number' ? tokens[id] : undefined;
      return token === undefined ? [] : [[`${short}_token`, token]];
    }),
  );
}

const longNames: ReadonlyMap<string, string> = new Map([
  ['unk', 'unknown'],
  ['pad', 'padding'],
]);

/**
 * Puts the first token before each text, and the last one after it, if the file says so. If it does not, texts of
 * sentencepiece begin with the first token, as in llama.cpp.
 */
function postProcessor(
  { metadata, path }: GgufFile,
  kind: string,
  tokens: readonly string[],
): object | null {
  const isAdded = (role: 'bos' | 'eos', whenUnsaid: boolean): boolean => {
    const said = metadata.get(`tokenizer.ggml.add_${role}_token`);
    return said === undefined ? whenUnsaid : said === true;
  };
  const roles = [
    ...(isAdded('bos', kind === 'llama') ? (['bos'] as const) : []),
    ...(isAdded('eos', false) ? (['eos'] as const) : []),
  ];
  if (roles.length === 0) {
    return kind === 'llama' ? null : { ...byteLevel, trim_offsets: false, use_regex: true };
  }
  const ids = roles.map((role) => {
    const id = metadata.get(`tokenizer.ggml.${role}_token_id`);
    const token = typeof id === 'number' ? tokens[id] : undefined;
    if (token === undefined)
      throw refusal(path, `no ${role} token, which each text is to have`, 'Use a tokenizer.json');
    return { role, id, token };
  });
  const added = (role: 'bos' | 'eos', type: number): readonly object[] =>
    ids
      .filter((each) => each.role === role)
      .map(({ token }) => ({ SpecialToken: { id: token, type_id: type } }));
  const around = (text: 'A' | 'B', type: number): readonly object[] => [
    ...added('bos', type),
    { Sequence: { id: text, type_id: type } },
    ...added('eos', type),
  ];
  return {
    type: 'TemplateProcessing',
    single: around('A', 0),
    pair: [...around('A', 0), ...around('B', 1)],
    special_tokens: Object.fromEntries(
      ids.map(({ id, token }) => [token, { id: token, ids: [id], tokens: [token] }]),
    ),
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
