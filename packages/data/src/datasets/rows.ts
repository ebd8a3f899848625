import {
  type ArrayTree,
  checkIndex,
  ConfigError,
  type Dataset,
  DataError,
} from '@shardwise/core/extend';

/** Rows of a file or of several, read by their index. */
export interface Rows<Row> {
  readonly length: number;
  get(index: number): Promise<Row>;
  /** Where a row is from, for messages, such as `train.jsonl, line 7`. */
  nameOf(index: number): string;
}

/**
 * A dataset of rows: `toSample` makes the arrays of a row when they are needed. An error that it throws becomes a DataError
 * that says of which row.
 */
export function rowDataset<Row, Sample extends ArrayTree>(
  rows: Rows<Row>,
  toSample: (row: Row, index: number) => Sample | Promise<Sample>,
): Dataset<Sample> {
  return {
    length: rows.length,
    get: async (index) => {
      checkIndex(index, rows.length);
      const row = await rows.get(index);
      try {
        return await toSample(row, index);
      } catch (cause) {
        throw new DataError(
          {
            asked: `the sample of ${rows.nameOf(index)}`,
            found: cause instanceof Error ? cause.message : String(cause),
            todo: 'Mend the row, or the function that makes a sample of it',
          },
          { index },
          { cause },
        );
      }
    },
  };
}

/** The rows of several files, one after the other. */
export function concatRows<Row>(parts: readonly Rows<Row>[]): Rows<Row> {
  let end = 0;
  const ends = parts.map(({ length }) => (end += length));
  const placeOf = (index: number): readonly [Rows<Row>, number] => {
    checkIndex(index, end);
    const which = ends.findIndex((each) => index < each);
    const part = parts[which];
    if (part === undefined) throw new RangeError(`row ${index} of ${end}`);
    return [part, index - (ends[which - 1] ?? 0)];
  };
  if (parts.length === 0) {
    throw new ConfigError({
      asked: 'the rows of several files',
      found: 'no files',
      todo: 'Give at least one; check the pattern by which files are found',
    });
  }
  return {
    length: end,
    get: async (index) => {
      const [part, own] = placeOf(index);
      return part.get(own);
    },
    nameOf: (index) => {
      const [part, own] = placeOf(index);
      return part.nameOf(own);
    },
  };
}
