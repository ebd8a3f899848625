import { checkOptions, DataError, option, type OptionRules } from '@shardwise/core/extend';
import { AddedTokens, type Stretch } from './added-tokens.ts';
import type { Offsets } from './aligned-text.ts';
import {
  type BatchEncoding,
  type BatchOptions,
  checkBatchOptions,
  padBatch,
} from './batch-encoding.ts';
import { ChatTemplates, type ChatMessage, type ChatOptions } from './chat-template.ts';
import { type EncodeOptions, encodeRules, type Encoding } from './encoding.ts';
import { createDecoder, type Decoder, tokenBytes } from './decoders.ts';
import type { DecoderConfig } from './file-types.ts';
import { createNormalizer, type Normalizer } from './normalizers.ts';
import { createPostProcessor, type PostProcessor, type Processed } from './post-processor.ts';
import { createPreTokenizer, type PreTokenizer } from './pre-tokenizers.ts';
import { TextStream } from './text-stream.ts';
import { createTokenModel, type TokenModel } from './token-model.ts';
import { createTokenPlaces, createTrimOffsets } from './token-places.ts';
import {
  parseTokenizerConfig,
  type SpecialTokens,
  type TokenizerConfig,
} from './tokenizer-config.ts';
import { parseTokenizerFile } from './tokenizer-file.ts';
import { truncate } from './truncate.ts';

/** What a tokenizer is made of besides its `tokenizer.json`. */
export interface TokenizerFiles {
  /** The content of `tokenizer_config.json`. */
  readonly config?: unknown;
  /** The content of `special_tokens_map.json`. */
  readonly specialTokensMap?: unknown;
  /** The content of `chat_template.jinja`. */
  readonly chatTemplate?: string;
  /** What messages call the tokenizer, such as the path of its file. Default: `tokenizer.json`. */
  readonly name?: string;
}

/** Options of `decode`. */
export interface DecodeOptions {
  /** Whether tokens such as [CLS] and </s> are left out. Default: false. */
  readonly skipSpecialTokens?: boolean;
}

const decodeRules: OptionRules<DecodeOptions> = { skipSpecialTokens: option.flag };

const filesRules: OptionRules<TokenizerFiles> = {
  config: option.checkedLater(),
  specialTokensMap: option.checkedLater(),
  chatTemplate: option.text,
  name: option.nonEmptyText,
};

/**
 * A tokenizer of Hugging Face: `PreTrainedTokenizerFast` of transformers, made of the content of a `tokenizer.json`. Ids
 * are those of the Rust library `tokenizers`. WordPiece, BPE (of bytes, and of characters with bytes for unknown ones)
 * and Unigram are known.
 */
export class Tokenizer {
  readonly #model: TokenModel;
  readonly #normalize: Normalizer;
  readonly #preTokenize: PreTokenizer;
  readonly #postProcess: PostProcessor;
  readonly #placesOf: ReturnType<typeof createTokenPlaces>;
  readonly #trim: ReturnType<typeof createTrimOffsets>;
  readonly #decoder: DecoderConfig | null | undefined;
  readonly #decode: Decoder;
  readonly #rawAdded: AddedTokens;
  readonly #normalizedAdded: AddedTokens;
  readonly #tokens: ReadonlyMap<number, string>;
  readonly #idOf: ReadonlyMap<string, number>;
  readonly #config: TokenizerConfig;
  readonly #chat: ChatTemplates;
  readonly #json: unknown;
  readonly #files: TokenizerFiles;
  /** The ids of special tokens, such as those of padding and of the end of a text. */
  readonly specialIds: ReadonlySet<number>;

  private constructor(json: unknown, files: TokenizerFiles) {
    checkOptions('a tokenizer', files, filesRules);
    const { name = 'tokenizer.json' } = files;
    this.#json = json;
    this.#files = files;
    const file = parseTokenizerFile(json, name);
    this.#model = createTokenModel(file.model);
    this.#normalize = createNormalizer(file.normalizer);
    this.#preTokenize = createPreTokenizer(file.pre_tokenizer);
    this.#postProcess = createPostProcessor(file.post_processor);
    this.#decoder = file.decoder;
    this.#decode = createDecoder(file.decoder);

    const idOf = new Map(this.#model.idOf);
    for (const { content, id } of file.added_tokens) idOf.set(content, id);
    this.#idOf = idOf;
    this.#tokens = new Map([...idOf].map(([token, id]) => [id, token]));
    const isNormalized = ({ normalized, special }: (typeof file.added_tokens)[number]): boolean =>
      normalized ?? !special;
    const [raw, normalized] = [false, true].map((wanted) =>
      file.added_tokens
        .filter((token) => isNormalized(token) === wanted)
        .map((token) => [wanted ? this.#normalize(token.content) : token.content, token] as const),
    );
    this.#rawAdded = new AddedTokens(raw ?? []);
    this.#normalizedAdded = new AddedTokens(normalized ?? []);
    const [rawAdded, normalizedAdded] = [this.#rawAdded, this.#normalizedAdded];
    this.#placesOf = createTokenPlaces(file, { model: this.#model, rawAdded, normalizedAdded });
    this.#trim = createTrimOffsets(file.post_processor);

    this.#config = parseTokenizerConfig(files.config, files.specialTokensMap, name);
    const special = file.added_tokens.filter((token) => token.special).map(({ id }) => id);
    this.specialIds = new Set([...special, ...Object.values(this.#specialTokenIds())]);
    const template = files.chatTemplate ?? this.#config.chatTemplate;
    this.#chat = new ChatTemplates(template, this.#config.specialTokens, name);
  }

  /**
   * Makes a tokenizer of the parsed content of a `tokenizer.json`. Throws ConfigError for parts that are missing or of
   * types that are not known, and for what would be encoded in another way than by Hugging Face's library.
   */
  static fromJson(json: unknown, files: TokenizerFiles = {}): Tokenizer {
    return new Tokenizer(json, files);
  }

  /**
   * The contents of the files that the tokenizer was made of, by the names that transformers gives them. In Node,
   * `saveTokenizer` of `@shardwise/data/node` writes them into a folder.
   */
  files(): Readonly<Record<string, string>> {
    const { config, specialTokensMap, chatTemplate } = this.#files;
    const jsons = {
      'tokenizer.json': this.#json,
      'tokenizer_config.json': config,
      'special_tokens_map.json': specialTokensMap,
    };
    const texts = Object.entries(jsons)
      .filter(([, json]) => json !== undefined)
      .map(([name, json]) => [name, `${JSON.stringify(json, null, 2)}\n`] as const);
    return {
      ...Object.fromEntries(texts),
      ...(chatTemplate === undefined ? {} : { 'chat_template.jinja': chatTemplate }),
    };
  }

  /** The number of tokens, added ones included. */
  get vocabularySize(): number {
    return this.#idOf.size;
  }

  /** The token of padding and so on, as `tokenizer_config.json` names them. */
  get specialTokens(): SpecialTokens {
    return this.#config.specialTokens;
  }

  get padTokenId(): number | undefined {
    return this.#specialTokenIds().pad;
  }

  get bosTokenId(): number | undefined {
    return this.#specialTokenIds().bos;
  }

  get eosTokenId(): number | undefined {
    return this.#specialTokenIds().eos;
  }

  get maskTokenId(): number | undefined {
    return this.#specialTokenIds().mask;
  }

  /** The id of a token. Undefined if there is none. */
  idOf(token: string): number | undefined {
    return this.#idOf.get(token);
  }

  /** The token of an id. Undefined if there is none. */
  tokenOf(id: number): string | undefined {
    return this.#tokens.get(id);
  }

  /**
   * The bytes, in UTF-8, of the text that a token is behind others. A token may have a part of those of a character.
   * Undefined if there is no such token.
   */
  bytesOf(id: number): readonly number[] | undefined {
    const token = this.tokenOf(id);
    if (token === undefined) return undefined;
    const bytes = tokenBytes(this.#decoder, token);
    if (bytes !== undefined) return bytes;
    // Some decoders write the first token of a text in another way.
    const { length } = this.decode([id]);
    return [...new TextEncoder().encode(this.decode([id, id]).slice(length))];
  }

  /** The tokens of a text. Throws ConfigError if `maxLength` has no place for a pair's special tokens. */
  encode(text: string, options: EncodeOptions = {}): Encoding {
    checkOptions('encode', options, encodeRules);
    const { pair, addSpecialTokens = true, returnOffsetsMapping = false } = options;
    const first = this.#idsOf(text);
    const second = pair === undefined ? undefined : this.#idsOf(pair);
    if (returnOffsetsMapping) {
      const placed = this.#placesOf(text, first);
      const other = second === undefined ? undefined : this.#placesOf(pair ?? '', second);
      const texts = this.#truncated(placed, other, options).map((tokens = []) =>
        this.#trim(tokens),
      );
      const [ids = [], idsOfPair] = texts.map((tokens) => tokens.map(({ id }) => id));
      const processed = this.#postProcess(ids, idsOfPair, addSpecialTokens);
      const taken = [0, 0];
      const offsetMapping = processed.sequences.map((sequence): Offsets => {
        if (sequence === undefined) return [0, 0];
        const index = taken[sequence] ?? 0;
        taken[sequence] = index + 1;
        return texts[sequence]?.[index]?.offsets ?? [0, 0];
      });
      return { ...encodingOf(processed), offsetMapping, sequenceIds: processed.sequences };
    }
    const texts = this.#truncated(first, second, options);
    return encodingOf(this.#postProcess(texts[0], texts[1], addSpecialTokens));
  }

  /**
   * The tokens of texts, or of pairs of texts, as rows of arrays of one length. Shape: each [B, T]. Throws ConfigError
   * if rows are padded and the tokenizer has no token for it.
   */
  encodeBatch(
    texts: readonly (string | readonly [string, string])[],
    options: BatchOptions = {},
  ): BatchEncoding {
    checkBatchOptions(options);
    const { padding: _p, padToMultipleOf: _m, paddingSide: _s, ...each } = options;
    const rows = texts.map((text) =>
      typeof text === 'string'
        ? this.encode(text, each)
        : this.encode(text[0], { ...each, pair: text[1] }),
    );
    return padBatch(rows, options, { side: this.#config.paddingSide, id: this.padTokenId });
  }

  /**
   * The text of tokens. Ids that the tokenizer does not have are left out, because the vocabularies of models are often
   * rounded up.
   */
  decode(ids: Iterable<number | bigint>, options: DecodeOptions = {}): string {
    checkOptions('decode', options, decodeRules);
    const { skipSpecialTokens = false } = options;
    const tokens: string[] = [];
    for (const given of ids) {
      const id = Number(given);
      if (!Number.isSafeInteger(id) || id < 0) throw noId(given);
      const token = this.#tokens.get(id);
      if (token === undefined || (skipSpecialTokens && this.specialIds.has(id))) continue;
      tokens.push(token);
    }
    return tokens.length === 0 ? '' : this.#decode(tokens).join('');
  }

  /** Makes the text of tokens that come one after another, as in generation. */
  decodeStream(options: DecodeOptions = {}): TextStream {
    checkOptions('decodeStream', options, decodeRules);
    return new TextStream((ids) => this.decode(ids, options));
  }

  /**
   * The text that a chat model reads for these messages (`apply_chat_template` of transformers). Encode it with
   * `addSpecialTokens: false`, because the template has written the special tokens. Throws ConfigError if the tokenizer
   * has no template, and DataError for messages that the template refuses.
   */
  applyChatTemplate(messages: readonly ChatMessage[], options: ChatOptions = {}): string {
    return this.#chat.render(messages, options);
  }

  /** Cuts tokens to the length that is asked for. Without a pair, there is one list. */
  #truncated<Token>(
    first: readonly Token[],
    second: readonly Token[] | undefined,
    { addSpecialTokens = true, maxLength, truncationSide: side = 'right' }: EncodeOptions,
  ): readonly [readonly Token[], (readonly Token[])?] {
    if (maxLength === undefined) return second === undefined ? [first] : [first, second];
    const empty = second === undefined ? undefined : [];
    const special = this.#postProcess([], empty, addSpecialTokens).ids.length;
    return truncate(first, second, { maxLength, special, side });
  }

  #idsOf(text: string): readonly number[] {
    // A half of a surrogate pair is no character. Rust, and UTF-8, have U+FFFD in its place.
    return this.#rawAdded.split(text.toWellFormed(), true).flatMap((stretch) => {
      if ('id' in stretch) return [stretch.id];
      const { text, isFirst } = stretch;
      return this.#normalizedAdded
        .split(this.#normalize(text), isFirst)
        .flatMap((part) => this.#idsOfStretch(part));
    });
  }

  #idsOfStretch(stretch: Stretch): readonly number[] {
    if ('id' in stretch) return [stretch.id];
    return this.#model.encode(this.#preTokenize(stretch.text, stretch.isFirst));
  }

  #specialTokenIds(): { readonly [Role in keyof SpecialTokens]: number } {
    const known = Object.entries(this.#config.specialTokens).flatMap(([role, token]) => {
      const id = this.#idOf.get(token);
      return id === undefined ? [] : [[role, id] as const];
    });
    return Object.fromEntries(known);
  }
}

function encodingOf({ ids, types }: Processed): Encoding {
  return { inputIds: ids, attentionMask: ids.map(() => 1), tokenTypeIds: types };
}

function noId(id: number | bigint): DataError {
  return new DataError(
    {
      asked: `the text of the token ${id}`,
      found: 'no whole number from 0',
      todo: 'Give ids of tokens',
    },
    { id: String(id) },
  );
}
