import {
  checkIndex,
  checkOptions,
  ConfigError,
  DataError,
  type Dataset,
  type NDArray,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';

/** Tokens of a text, from one place to another. */
export interface TokenSource {
  readonly length: number;
  /** The tokens from `start` to before `end`. */
  read(start: number, end: number): Int32Array<ArrayBuffer> | Promise<Int32Array<ArrayBuffer>>;
}

/** A window of a text. Labels are the tokens themselves: models shift them. Shape: each [T]. */
export type TokenWindow = {
  readonly inputIds: NDArray<'i32'>;
  readonly labels: NDArray<'i32'>;
};

/** Options of `TokenDataset`. */
export interface TokenDatasetOptions {
  /** T, the number of tokens that a model sees at once. */
  readonly contextLength: number;
  /** The number of tokens from the start of one window to the start of the next. Default: `contextLength`. */
  readonly stride?: number;
}

const windowRules: OptionRules<TokenDatasetOptions> = {
  contextLength: option.required(option.integer(2)),
  stride: option.integer(1),
};

/** Windows of a long text of tokens, which is in memory or in a file (`openTokens` of `@shardwise/data/node`). */
export class TokenDataset implements Dataset<TokenWindow> {
  readonly length: number;
  readonly #tokens: TokenSource;
  readonly #contextLength: number;
  readonly #stride: number;

  /** Throws DataError if the text is shorter than a window. */
  constructor(tokens: TokenSource | ArrayLike<number>, options: TokenDatasetOptions) {
    checkOptions('TokenDataset', options, windowRules);
    const { contextLength, stride = contextLength } = options;
    this.#tokens = 'read' in tokens ? tokens : idsInMemory(tokens);
    const { length } = this.#tokens;
    if (length < contextLength) {
      throw new DataError(
        {
          asked: `windows of ${contextLength} tokens`,
          found: `a text of ${length} tokens`,
          todo: `Use a longer text, or a context of at most ${length} tokens`,
        },
        { contextLength, length },
      );
    }
    this.length = Math.floor((length - contextLength) / stride) + 1;
    this.#contextLength = contextLength;
    this.#stride = stride;
  }

  async get(index: number): Promise<TokenWindow> {
    checkIndex(index, this.length);
    const start = index * this.#stride;
    const ids = await this.#tokens.read(start, start + this.#contextLength);
    return { inputIds: ndArray(ids), labels: ndArray(ids.slice()) };
  }
}

function idsInMemory(ids: ArrayLike<number>): TokenSource {
  if (!Number.isSafeInteger(ids.length)) {
    throw new ConfigError({
      asked: 'a TokenDataset',
      found: 'a value that is no list of ids',
      todo: 'Give the ids of a text, as tokenizer.encode(text).inputIds, or an open token file',
    });
  }
  return {
    length: ids.length,
    read: (start, end) => Int32Array.from({ length: end - start }, (_, i) => ids[start + i] ?? 0),
  };
}
