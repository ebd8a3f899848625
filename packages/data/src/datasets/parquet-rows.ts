import { checkIndex, DataError } from '@shardwise/core/extend';
import { type AsyncBuffer, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { type ByteSource, checkSource } from './byte-source.ts';
import type { Rows } from './rows.ts';

type Row = Readonly<Record<string, unknown>>;

/**
 * The rows of a Parquet file. Rows lie in groups that are read and decompressed as a whole; the last two groups are kept.
 * Read rows in their order, or shuffle a stream of them, so that a group is not read again for each row. `columns` are the
 * columns that are read. Default: all. Throws DataError for what is no Parquet file.
 */
export async function readParquet(
  source: ByteSource,
  { columns }: { readonly columns?: readonly string[] } = {},
): Promise<Rows<Row>> {
  checkSource(source);
  const file: AsyncBuffer = {
    byteLength: source.size,
    slice: async (start, end = source.size) => (await source.read(start, end)).buffer,
  };
  const metadata = await told(source, () => parquetMetadataAsync(file));
  let end = 0;
  const ends = metadata.row_groups.map(({ num_rows: rows }) => (end += Number(rows)));
  const groups = new Map<number, Promise<readonly Row[]>>();
  const readGroup = (group: number): Promise<readonly Row[]> => {
    const kept = groups.get(group);
    if (kept !== undefined) return kept;
    const [rowStart, rowEnd] = [ends[group - 1] ?? 0, ends[group] ?? 0];
    const only = columns === undefined ? {} : { columns: [...columns] };
    const rows = told(source, () =>
      parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd, ...only }),
    );
    groups.set(group, rows);
    // A group that could not be read is tried again.
    rows.catch(() => groups.delete(group));
    const [oldest] = groups.keys();
    if (groups.size > 2 && oldest !== undefined) groups.delete(oldest);
    return rows;
  };
  return {
    length: end,
    get: async (index) => {
      checkIndex(index, end);
      const group = ends.findIndex((each) => index < each);
      const rows = await readGroup(group);
      const row = rows[index - (ends[group - 1] ?? 0)];
      if (row === undefined) throw new RangeError(`row ${index} of ${end}`);
      return row;
    },
    nameOf: (index) => `${source.name}, row ${index}`,
  };
}

async function told<T>({ name }: ByteSource, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    throw new DataError(
      {
        asked: `the rows of ${name}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Give a whole Parquet file, and names of columns that it has',
      },
      { name },
      { cause },
    );
  }
}
