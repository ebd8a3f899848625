import {
  checkOptions,
  ConfigError,
  type NDArray,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { type EncodeOptions, encodeRules, type Encoding } from './encoding.ts';

/** How rows of different lengths become rows of one length. */
interface PaddingOptions {
  /**
   * The length of all rows: that of the longest one, or `maxLength`. With none, rows of different lengths are an error.
   * Default: longest.
   */
  readonly padding?: 'longest' | 'maxLength' | 'none';
  /** Rounds the length up to a multiple. Each length costs a plan, and so there are fewer. Default: 1. */
  readonly padToMultipleOf?: number;
  /** Default: what `tokenizer_config.json` says, or right. */
  readonly paddingSide?: 'left' | 'right';
}

/** Options of `encodeBatch`. */
export interface BatchOptions
  extends Omit<EncodeOptions, 'pair' | 'returnOffsetsMapping'>, PaddingOptions {}

/** Texts as tokens. Shape: each [B, T]. */
export type BatchEncoding = {
  readonly inputIds: NDArray<'i32'>;
  /** 1 for tokens, 0 for padding. */
  readonly attentionMask: NDArray<'i32'>;
  readonly tokenTypeIds: NDArray<'i32'>;
};

const { pair: _pair, returnOffsetsMapping: _offsets, ...rowRules } = encodeRules;
const batchRules: OptionRules<BatchOptions> = {
  ...rowRules,
  padding: option.oneOf('longest', 'maxLength', 'none'),
  padToMultipleOf: option.integer(1),
  paddingSide: option.oneOf('left', 'right'),
};

/** Throws ConfigError for options of another name or value. */
export function checkBatchOptions(options: BatchOptions): void {
  checkOptions('encodeBatch', options, batchRules);
}

/** What a tokenizer says about padding. */
export interface Padding {
  readonly side: 'left' | 'right';
  readonly id: number | undefined;
}

/**
 * Makes arrays of rows. Throws ConfigError if rows have to be padded and there is no token for it. Shape: each row [t]
 * -> [B, T].
 */
export function padBatch(
  rows: readonly Encoding[],
  options: BatchOptions,
  { side, id: padTokenId }: Padding,
): BatchEncoding {
  const { padding = 'longest', padToMultipleOf = 1, paddingSide = side, maxLength } = options;
  const longest = rows.reduce((most, { inputIds }) => Math.max(most, inputIds.length), 0);
  if (padding === 'maxLength' && maxLength === undefined) {
    throw new ConfigError({
      asked: "encodeBatch with padding: 'maxLength'",
      found: 'no maxLength',
      todo: "Give maxLength, or use padding: 'longest'",
    });
  }
  const wanted = padding === 'maxLength' ? (maxLength ?? longest) : longest;
  const length = Math.ceil(wanted / padToMultipleOf) * padToMultipleOf;
  const isPadded = rows.some(({ inputIds }) => inputIds.length < length);
  if (isPadded && (padding === 'none' || padTokenId === undefined)) {
    throw padding === 'none' ? differentLengths(rows) : noPadToken();
  }
  const column = (valuesOf: (row: Encoding) => readonly number[], fill: number): NDArray<'i32'> => {
    const data = new Int32Array(rows.length * length).fill(fill);
    for (const [index, row] of rows.entries()) {
      const values = valuesOf(row);
      const start = paddingSide === 'right' ? 0 : length - values.length;
      data.set(values, index * length + start);
    }
    return ndArray(data, [rows.length, length]);
  };
  return {
    inputIds: column(({ inputIds }) => inputIds, padTokenId ?? 0),
    attentionMask: column(({ attentionMask }) => attentionMask, 0),
    tokenTypeIds: column(({ tokenTypeIds }) => tokenTypeIds, 0),
  };
}

function differentLengths(rows: readonly Encoding[]): ConfigError {
  const lengths = [...new Set(rows.map(({ inputIds }) => inputIds.length))];
  return new ConfigError(
    {
      asked: "encodeBatch with padding: 'none'",
      found: `rows of ${lengths.slice(0, 8).join(', ')} tokens`,
      todo: "Use padding: 'longest', or encode texts one by one",
    },
    { lengths },
  );
}

function noPadToken(): ConfigError {
  return new ConfigError({
    asked: 'rows of one length of texts of different lengths',
    found: 'a tokenizer without a token for padding',
    todo: "Name one in the config: Tokenizer.fromJson(json, { config: { pad_token: '<|endoftext|>' } })",
  });
}
