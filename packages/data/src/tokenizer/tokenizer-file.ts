import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import type {
  DecoderConfig,
  NormalizerConfig,
  PostProcessorConfig,
  PreTokenizerConfig,
  TokenizerFile,
} from './file-types.ts';

const MAX_TOKEN_LENGTH = 1 << 16;
const MAX_TOKENS = 1 << 22;

const token = z.string().max(MAX_TOKEN_LENGTH);
const id = z.int().min(0).max(MAX_TOKENS);

// The long lists of a file are checked by loops, which take a tenth of the time of a schema for each entry.
const isId = (value: unknown): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKENS;
const isToken = (value: unknown): boolean =>
  typeof value === 'string' && value.length <= MAX_TOKEN_LENGTH;
const isListOf = (value: unknown, isEntry: (entry: unknown) => boolean): boolean =>
  Array.isArray(value) && value.length <= MAX_TOKENS && value.every(isEntry);

const vocabulary = z.custom<Readonly<Record<string, number>>>(
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).every(([token, id]) => isToken(token) && isId(id)),
  'expected ids from 0 by their tokens',
);
const merges = z.custom<readonly (string | readonly [string, string])[]>(
  (value) =>
    isListOf(
      value,
      (merge) =>
        isToken(merge) || (Array.isArray(merge) && merge.length === 2 && merge.every(isToken)),
    ),
  'expected a list of merges, each of two tokens',
);
const scores = z.custom<readonly (readonly [string, number])[]>(
  (value) =>
    isListOf(
      value,
      (entry) =>
        Array.isArray(entry) &&
        entry.length === 2 &&
        isToken(entry[0]) &&
        typeof entry[1] === 'number',
    ) &&
    Array.isArray(value) &&
    value.length > 0,
  'expected a list of tokens with their scores',
);

const addedToken = z.object({
  id,
  content: token.min(1),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().optional(),
  special: z.boolean().default(false),
});

const pattern = z.union([
  z.object({ String: z.string().min(1).max(4096) }),
  z.object({ Regex: z.string().min(1).max(4096) }),
]);

const behavior = z.enum([
  'Removed',
  'Isolated',
  'MergedWithPrevious',
  'MergedWithNext',
  'Contiguous',
]);

const prependScheme = z.enum(['always', 'never', 'first']);

const normalizer: z.ZodType<NormalizerConfig> = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('BertNormalizer'),
    clean_text: z.boolean().default(true),
    handle_chinese_chars: z.boolean().default(true),
    strip_accents: z.boolean().nullish(),
    lowercase: z.boolean().default(true),
  }),
  z.object({ type: z.literal('Precompiled'), precompiled_charsmap: z.string().nullish() }),
  z.object({
    type: z.literal('Sequence'),
    normalizers: z.array(z.lazy(() => normalizer)).max(64),
  }),
  z.object({ type: z.literal('Replace'), pattern, content: z.string() }),
  z.object({ type: z.enum(['NFC', 'NFD', 'NFKC', 'NFKD', 'StripAccents', 'Lowercase']) }),
  z.object({ type: z.literal('Strip'), strip_left: z.boolean(), strip_right: z.boolean() }),
  z.object({ type: z.literal('Prepend'), prepend: z.string() }),
]);

const metaspace = z.object({
  type: z.literal('Metaspace'),
  replacement: z.string().max(2).default('▁'),
  prepend_scheme: prependScheme.optional(),
  /** How files of older versions say it. */
  add_prefix_space: z.boolean().optional(),
  split: z.boolean().default(true),
});

const preTokenizer: z.ZodType<PreTokenizerConfig> = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['BertPreTokenizer', 'Whitespace', 'WhitespaceSplit']) }),
  z.object({
    type: z.literal('Sequence'),
    pretokenizers: z.array(z.lazy(() => preTokenizer)).max(64),
  }),
  metaspace,
  z.object({
    type: z.literal('ByteLevel'),
    add_prefix_space: z.boolean().default(true),
    use_regex: z.boolean().default(true),
  }),
  z.object({
    type: z.literal('Split'),
    pattern,
    behavior,
    invert: z.boolean().default(false),
  }),
  z.object({ type: z.literal('Punctuation'), behavior: behavior.default('Isolated') }),
  z.object({ type: z.literal('Digits'), individual_digits: z.boolean().default(false) }),
  z.object({ type: z.literal('CharDelimiterSplit'), delimiter: z.string().max(2) }),
]);

const model = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('WordPiece'),
    unk_token: token,
    continuing_subword_prefix: z.string().max(64).default('##'),
    max_input_chars_per_word: z.int().min(1).max(100_000).default(100),
    vocab: vocabulary,
  }),
  z.object({
    type: z.literal('BPE'),
    vocab: vocabulary,
    merges,
    dropout: z.number().nullish(),
    unk_token: token.nullish(),
    continuing_subword_prefix: z.string().nullish(),
    end_of_word_suffix: z.string().max(64).nullish(),
    fuse_unk: z.boolean().default(false),
    byte_fallback: z.boolean().default(false),
    ignore_merges: z.boolean().default(false),
  }),
  z.object({
    type: z.literal('Unigram'),
    vocab: scores,
    unk_id: id,
    byte_fallback: z.boolean().default(false),
  }),
]);

const piece = z.union([
  z.object({ Sequence: z.object({ id: z.enum(['A', 'B']), type_id: id.default(0) }) }),
  z.object({ SpecialToken: z.object({ id: token, type_id: id.default(0) }) }),
]);
const tokenAndId = z.tuple([token, id]);
/** Whether blanks are left out of the places of tokens. */
const offsetKeys = {
  trim_offsets: z.boolean().default(true),
  add_prefix_space: z.boolean().default(true),
};

const postProcessor: z.ZodType<PostProcessorConfig> = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('TemplateProcessing'),
    single: z.array(piece).max(64),
    pair: z.array(piece).max(64),
    special_tokens: z.record(token, z.object({ ids: z.array(id).max(64) })),
  }),
  z.object({
    type: z.enum(['BertProcessing', 'RobertaProcessing']),
    sep: tokenAndId,
    cls: tokenAndId,
    ...offsetKeys,
  }),
  z.object({ type: z.literal('ByteLevel'), ...offsetKeys }),
  z.object({
    type: z.literal('Sequence'),
    processors: z.array(z.lazy(() => postProcessor)).max(64),
  }),
]);

const decoder: z.ZodType<DecoderConfig> = z.discriminatedUnion('type', [
  z.object({ type: z.enum(['ByteLevel', 'ByteFallback', 'Fuse']) }),
  z.object({
    type: z.literal('WordPiece'),
    prefix: z.string().default('##'),
    cleanup: z.boolean().default(true),
  }),
  metaspace,
  z.object({ type: z.literal('BPEDecoder'), suffix: z.string().default('</w>') }),
  z.object({
    type: z.literal('Sequence'),
    decoders: z.array(z.lazy(() => decoder)).max(64),
  }),
  z.object({ type: z.literal('Replace'), pattern, content: z.string() }),
  z.object({
    type: z.literal('Strip'),
    content: z.string().max(2),
    start: z.int().min(0),
    stop: z.int().min(0),
  }),
]);

const tokenizerFile: z.ZodType<TokenizerFile> = z.object({
  added_tokens: z
    .array(addedToken)
    .max(1 << 20)
    .default([]),
  normalizer: normalizer.nullish(),
  pre_tokenizer: preTokenizer.nullish(),
  model,
  post_processor: postProcessor.nullish(),
  decoder: decoder.nullish(),
});

/** The types that each part of a file may have, for messages. */
const KNOWN: Readonly<Record<string, string>> = {
  normalizer:
    'BertNormalizer, Precompiled, Sequence, Replace, NFC, NFD, NFKC, NFKD, StripAccents, Lowercase, Strip, Prepend',
  pre_tokenizer:
    'BertPreTokenizer, Whitespace, WhitespaceSplit, Sequence, Metaspace, ByteLevel, Split, Punctuation, Digits, CharDelimiterSplit',
  model: 'WordPiece, BPE, Unigram',
  post_processor: 'TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence',
  decoder:
    'ByteLevel, ByteFallback, Fuse, WordPiece, Metaspace, BPEDecoder, Sequence, Replace, Strip',
};

/**
 * Checks the content of a `tokenizer.json`, which is data from outside. Throws ConfigError for a part that is missing,
 * has another form, or is of a type that is not known here. `name` is what the message calls it.
 */
export function parseTokenizerFile(json: unknown, name: string): TokenizerFile {
  const parsed = tokenizerFile.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.map(String) ?? [];
  const [part = ''] = path;
  const isType = path.at(-1) === 'type';
  const found = typeOf(json, path);
  throw new ConfigError(
    {
      asked: `the tokenizer of ${name}`,
      found: isType
        ? `${path.join('.')}: ${found ?? 'none'}, which is not known here`
        : `${path.join('.') || 'the file'}: ${issue?.message ?? 'another form'}`,
      todo:
        isType && KNOWN[part] !== undefined
          ? `Known are ${KNOWN[part]}`
          : 'Give the content of the tokenizer.json that Hugging Face tokenizers writes',
    },
    { path: path.join('.'), ...(found === undefined ? {} : { type: found }) },
  );
}

function typeOf(json: unknown, path: readonly string[]): string | undefined {
  let value = json;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Object.entries(value).find(([name]) => name === key)?.[1];
  }
  return typeof value === 'string' ? value : undefined;
}
