// The parts of a tokenizer.json, with the names that the file has for them.

/** A token that was added to a vocabulary, and is found before anything else. */
export interface AddedTokenConfig {
  readonly id: number;
  readonly content: string;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized?: boolean | undefined;
  readonly special: boolean;
}

export type Pattern = { readonly String: string } | { readonly Regex: string };

export type SplitBehavior =
  | 'Removed'
  | 'Isolated'
  | 'MergedWithPrevious'
  | 'MergedWithNext'
  | 'Contiguous';

export interface BertNormalizerConfig {
  readonly type: 'BertNormalizer';
  readonly clean_text: boolean;
  readonly handle_chinese_chars: boolean;
  readonly strip_accents?: boolean | null | undefined;
  readonly lowercase: boolean;
}

interface ReplaceConfig {
  readonly type: 'Replace';
  readonly pattern: Pattern;
  readonly content: string;
}

export type NormalizerConfig =
  | BertNormalizerConfig
  | ReplaceConfig
  | { readonly type: 'Precompiled'; readonly precompiled_charsmap?: string | null | undefined }
  | { readonly type: 'Sequence'; readonly normalizers: readonly NormalizerConfig[] }
  | { readonly type: 'NFC' | 'NFD' | 'NFKC' | 'NFKD' | 'StripAccents' | 'Lowercase' }
  | { readonly type: 'Strip'; readonly strip_left: boolean; readonly strip_right: boolean }
  | { readonly type: 'Prepend'; readonly prepend: string };

export interface MetaspaceConfig {
  readonly type: 'Metaspace';
  readonly replacement: string;
  readonly prepend_scheme?: 'always' | 'never' | 'first' | undefined;
  /** How files of older versions say it. */
  readonly add_prefix_space?: boolean | undefined;
  readonly split: boolean;
}

export type PreTokenizerConfig =
  | MetaspaceConfig
  | { readonly type: 'BertPreTokenizer' | 'Whitespace' | 'WhitespaceSplit' }
  | { readonly type: 'Sequence'; readonly pretokenizers: readonly PreTokenizerConfig[] }
  | { readonly type: 'ByteLevel'; readonly add_prefix_space: boolean; readonly use_regex: boolean }
  | {
      readonly type: 'Split';
      readonly pattern: Pattern;
      readonly behavior: SplitBehavior;
      readonly invert: boolean;
    }
  | { readonly type: 'Punctuation'; readonly behavior: SplitBehavior }
  | { readonly type: 'Digits'; readonly individual_digits: boolean }
  | { readonly type: 'CharDelimiterSplit'; readonly delimiter: string };

interface WordPieceConfig {
  readonly type: 'WordPiece';
  readonly unk_token: string;
  readonly continuing_subword_prefix: string;
  readonly max_input_chars_per_word: number;
  readonly vocab: Readonly<Record<string, number>>;
}

export interface BpeConfig {
  readonly type: 'BPE';
  readonly vocab: Readonly<Record<string, number>>;
  readonly merges: readonly (string | readonly [string, string])[];
  readonly dropout?: number | null | undefined;
  readonly unk_token?: string | null | undefined;
  readonly continuing_subword_prefix?: string | null | undefined;
  readonly end_of_word_suffix?: string | null | undefined;
  readonly fuse_unk: boolean;
  readonly byte_fallback: boolean;
  readonly ignore_merges: boolean;
}

interface UnigramConfig {
  readonly type: 'Unigram';
  readonly vocab: readonly (readonly [token: string, score: number])[];
  readonly unk_id: number;
  readonly byte_fallback: boolean;
}

export type ModelConfig = WordPieceConfig | BpeConfig | UnigramConfig;

type TemplatePiece =
  | { readonly Sequence: { readonly id: 'A' | 'B'; readonly type_id: number } }
  | { readonly SpecialToken: { readonly id: string; readonly type_id: number } };

export type PostProcessorConfig =
  | {
      readonly type: 'TemplateProcessing';
      readonly single: readonly TemplatePiece[];
      readonly pair: readonly TemplatePiece[];
      readonly special_tokens: Readonly<Record<string, { readonly ids: readonly number[] }>>;
    }
  | {
      readonly type: 'BertProcessing' | 'RobertaProcessing';
      readonly sep: readonly [token: string, id: number];
      readonly cls: readonly [token: string, id: number];
      readonly trim_offsets: boolean;
      readonly add_prefix_space: boolean;
    }
  | {
      readonly type: 'ByteLevel';
      readonly trim_offsets: boolean;
      readonly add_prefix_space: boolean;
    }
  | { readonly type: 'Sequence'; readonly processors: readonly PostProcessorConfig[] };

export type DecoderConfig =
  | MetaspaceConfig
  | ReplaceConfig
  | { readonly type: 'ByteLevel' | 'ByteFallback' | 'Fuse' }
  | { readonly type: 'WordPiece'; readonly prefix: string; readonly cleanup: boolean }
  | { readonly type: 'BPEDecoder'; readonly suffix: string }
  | { readonly type: 'Sequence'; readonly decoders: readonly DecoderConfig[] }
  | {
      readonly type: 'Strip';
      readonly content: string;
      readonly start: number;
      readonly stop: number;
    };

export interface TokenizerFile {
  readonly added_tokens: readonly AddedTokenConfig[];
  readonly normalizer?: NormalizerConfig | null | undefined;
  readonly pre_tokenizer?: PreTokenizerConfig | null | undefined;
  readonly model: ModelConfig;
  readonly post_processor?: PostProcessorConfig | null | undefined;
  readonly decoder?: DecoderConfig | null | undefined;
}
