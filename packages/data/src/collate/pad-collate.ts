import {
  checkOptions,
  ConfigError,
  DataError,
  type NDArray,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { IGNORED, idsOf, type TokenRows } from './token-rows.ts';

/** Options of `padCollate`. */
export interface PadCollateOptions {
  /** The id of the token with which `inputIds` are padded. `tokenizer.padTokenId` has it. */
  readonly padTokenId: number;
  /** The length of all rows. Longer ones are an error. Default: that of the longest one. */
  readonly length?: number;
  /** Rounds the length up to a multiple. Each length costs a plan, and so there are fewer. Default: 1. */
  readonly padToMultipleOf?: number;
  /** Default: right. */
  readonly paddingSide?: 'left' | 'right';
  /** The values with which arrays of other names are padded. `labels` are padded with -100, and types with 0. */
  readonly fill?: Readonly<Record<string, number>>;
}

const padRules: OptionRules<PadCollateOptions> = {
  padTokenId: option.required(option.count),
  length: option.integer(1),
  padToMultipleOf: option.integer(1),
  paddingSide: option.oneOf('left', 'right'),
  fill: option.object('numbers by name'),
};

/** Makes a batch of samples, as `collate` of a data loader. */
export type TokenCollate = (
  samples: readonly TokenRows[],
  indices?: readonly number[],
) => TokenRows;

/**
 * Makes a collate function that pads texts to one length, and adds an `attentionMask` with 0 for padding
 * (`DataCollatorWithPadding` of transformers). Shape: each [t] -> [B, T], each [] -> [B]. The function throws DataError
 * for samples that differ in their names or dtypes, and for a name of which nobody said how to pad it.
 */
export function padCollate(options: PadCollateOptions): TokenCollate {
  checkOptions('padCollate', options, padRules);
  const { padTokenId, padToMultipleOf = 1, paddingSide = 'right' } = options;
  const fills: Readonly<Record<string, number>> = {
    attentionMask: 0,
    tokenTypeIds: 0,
    labels: IGNORED,
    ...options.fill,
    inputIds: padTokenId,
  };
  return (samples, indices) => {
    const nameOf = (position: number): string =>
      indices === undefined ? `sample ${position}` : `item ${indices[position]} of the dataset`;
    const lengths = samples.map((sample, i) => idsOf(sample, 'inputIds', nameOf(i)).length);
    const longest = Math.max(0, ...lengths);
    if (options.length !== undefined && longest > options.length) {
      throw tooLong(nameOf(lengths.indexOf(longest)), longest, options.length);
    }
    const length = Math.ceil((options.length ?? longest) / padToMultipleOf) * padToMultipleOf;
    const [first = {}] = samples;
    const columns = Object.keys(first).map((name) => {
      const arrays = samples.map((sample, i) => sample[name] ?? missing(name, nameOf(i)));
      return [
        name,
        padColumn(name, arrays, lengths, { length, fills, paddingSide, nameOf }),
      ] as const;
    });
    const other = samples.findIndex(
      (sample) => Object.keys(sample).length !== Object.keys(first).length,
    );
    if (other >= 0) missing(Object.keys(samples[other] ?? {}).join(', '), nameOf(0));
    const given = first['attentionMask'];
    const ones = lengths.map((count) => ndArray(new Int32Array(count).fill(1)));
    const mask =
      given === undefined
        ? {
            attentionMask: padColumn('attentionMask', ones, lengths, {
              length,
              fills,
              paddingSide,
              nameOf,
            }),
          }
        : {};
    return { ...Object.fromEntries(columns), ...mask };
  };
}

interface ColumnSettings {
  readonly length: number;
  readonly fills: Readonly<Record<string, number>>;
  readonly paddingSide: 'left' | 'right';
  readonly nameOf: (position: number) => string;
}

/** Shape: B times [t] -> [B, T], or B times [] -> [B]. */
function padColumn(
  name: string,
  arrays: readonly NDArray[],
  lengths: readonly number[],
  { length, fills, paddingSide, nameOf }: ColumnSettings,
): NDArray {
  const isWhole = arrays[0]?.shape.length === 0;
  const width = isWhole ? 1 : length;
  const isFloat = arrays[0]?.dtype === 'f32';
  const column = new (isFloat ? Float32Array : Int32Array)(arrays.length * width);
  const fill = fills[name];
  for (const [row, array] of arrays.entries()) {
    const { dtype, shape, data } = array;
    const wanted = isWhole ? [] : [lengths[row]];
    if (dtype !== (isFloat ? 'f32' : 'i32') || shape.join() !== wanted.join()) {
      throw unfit(name, array, nameOf(row), wanted.join());
    }
    if (fill === undefined && data.length < width) throw noFill(name);
    if (fill !== undefined) column.fill(fill, row * width, (row + 1) * width);
    column.set(data, row * width + (paddingSide === 'right' ? 0 : width - data.length));
  }
  const shape = isWhole ? [arrays.length] : [arrays.length, width];
  return column instanceof Float32Array ? ndArray(column, shape) : ndArray(column, shape);
}

function missing(name: string, sample: string): never {
  throw new DataError(
    {
      asked: `to put ${sample} into a batch`,
      found: `other names than ${name}, which another sample of the batch has`,
      todo: 'Give all samples arrays of the same names',
    },
    { sample },
  );
}

function unfit(name: string, { dtype, shape }: NDArray, sample: string, wanted: string): DataError {
  return new DataError(
    {
      asked: `to put ${sample} into a batch`,
      found: `${name} of ${dtype} [${shape.join(', ')}] beside ${wanted === '' ? 'a number' : `${wanted} tokens`}`,
      todo: 'Give i32 or f32, one value for each token or one for the whole text, and the same in all samples',
    },
    { sample, name },
  );
}

function noFill(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `to pad ${name}`,
      found: 'nothing that says with which value',
      todo: `Give it: padCollate({ padTokenId, fill: { ${name}: 0 } })`,
    },
    { name },
  );
}

function tooLong(sample: string, tokens: number, length: number): DataError {
  return new DataError(
    {
      asked: `to pad ${sample} to ${length} tokens`,
      found: `${tokens} tokens`,
      todo: 'Cut texts when you encode them (maxLength), or raise length',
    },
    { tokens, length },
  );
}
