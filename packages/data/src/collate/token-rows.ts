import { DataError, describeValue, type NDArray, ndArray } from '@shardwise/core/extend';

/**
 * What a data set has of one text, or a batch of several: arrays by name, such as `inputIds` and `labels`. Shape: each
 * [t] of a text, [B, T] of a batch; or [] of a text and [B] of a batch, for labels of whole texts.
 */
export type TokenRows = { readonly [name: string]: NDArray };

/** The label of places that the loss leaves out, as of padding. */
export const IGNORED = -100;

/** Tokens as an array of their ids. */
export function idsArray(ids: Iterable<number>): NDArray<'i32'> {
  return ndArray(Int32Array.from(ids));
}

/** The ids under a name. Throws DataError for what is no i32 [t]. */
export function idsOf(rows: TokenRows, name: string, sample: string): Int32Array {
  const array: NDArray | undefined = rows[name];
  if (array?.dtype === 'i32' && array.shape.length === 1) return array.data;
  const found =
    array === undefined ? `no ${name}` : `${name} of ${array.dtype} ${describeValue(array.shape)}`;
  throw new DataError(
    {
      asked: `the tokens of ${sample}`,
      found,
      todo: `Give samples such as { ${name}: data.ndArray(Int32Array.from(ids)) }`,
    },
    { name, sample },
  );
}
