import { checkIndex, DataError } from '@shardwise/core/extend';
import { type ByteSource, checkSource, chunksOf } from './byte-source.ts';
import type { Rows } from './rows.ts';

const NEWLINE = 10;
const QUOTE = 34;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Where records lie in a source, and in which lines. */
interface RecordIndex {
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  readonly lines: Float64Array;
}

/**
 * The lines of a text as rows, without what ends them (`\n` or `\r\n`). Lines that are empty are no rows. The text is read
 * once to find where lines begin, which takes 24 bytes a row; a row is read when it is needed.
 */
export async function readTextLines(source: ByteSource): Promise<Rows<string>> {
  const index = await indexOf(source, false);
  return {
    length: index.starts.length,
    get: (row) => textOf(source, index, row),
    nameOf: (row) => `${source.name}, line ${index.lines[row]}`,
  };
}

/**
 * The values of JSON lines as rows. A row is checked when it is read: one that is no JSON is a DataError that names the
 * file and the line.
 */
export async function readJsonLines(source: ByteSource): Promise<Rows<unknown>> {
  const lines = await readTextLines(source);
  return {
    ...lines,
    get: async (row) => {
      const text = await lines.get(row);
      try {
        const value: unknown = JSON.parse(text);
        return value;
      } catch (cause) {
        throw new DataError(
          {
            asked: `the row of ${lines.nameOf(row)}`,
            found: `no JSON: ${cause instanceof Error ? cause.message : String(cause)}`,
            todo: 'Mend the line: each has one value, such as {"text": "…"}',
          },
          { name: source.name, row },
          { cause },
        );
      }
    },
  };
}

/**
 * The records of comma-separated values as rows, by the names of the first record (RFC 4180). Fields may be in quotes, and
 * then contain separators and ends of lines. A record with more or fewer fields than the first is a DataError.
 */
export async function readCsv(
  source: ByteSource,
  { separator = ',' }: { readonly separator?: string } = {},
): Promise<Rows<Readonly<Record<string, string>>>> {
  const index = await indexOf(source, true);
  const nameOf = (record: number): string => `${source.name}, line ${index.lines[record]}`;
  const fieldsAt = async (record: number): Promise<readonly string[]> =>
    fieldsOf(await textOf(source, index, record), separator, nameOf(record));
  if (index.starts.length === 0)
    throw wrong(source.name, 'no record with the names of the columns');
  const names = await fieldsAt(0);
  if (new Set(names).size < names.length) throw wrong(nameOf(0), 'two columns of one name');
  const length = index.starts.length - 1;
  return {
    length,
    get: async (row) => {
      checkIndex(row, length);
      const fields = await fieldsAt(row + 1);
      if (fields.length !== names.length) {
        throw wrong(nameOf(row + 1), `${fields.length} fields instead of ${names.length}`);
      }
      return Object.fromEntries(names.map((name, i) => [name, fields[i] ?? '']));
    },
    nameOf: (row) => nameOf(row + 1),
  };
}

async function textOf(source: ByteSource, index: RecordIndex, row: number): Promise<string> {
  checkIndex(row, index.starts.length);
  const bytes = await source.read(index.starts[row] ?? 0, index.ends[row] ?? 0);
  const end = bytes.at(-1) === 13 ? bytes.length - 1 : bytes.length;
  try {
    return decoder.decode(bytes.subarray(0, end));
  } catch (cause) {
    throw wrong(`${source.name}, line ${index.lines[row]}`, 'bytes that are no UTF-8', cause);
  }
}

/** Finds records: lines that are not empty. With `quotes`, an end of line within quotes does not end a record. */
async function indexOf(source: ByteSource, quotes: boolean): Promise<RecordIndex> {
  checkSource(source);
  const starts: number[] = [];
  const ends: number[] = [];
  const lines: number[] = [];
  let position = 0;
  let [start, startLine, line] = [0, 1, 1];
  let isQuoted = false;
  let isEmpty = true;
  const end = (at: number): void => {
    if (!isEmpty) {
      starts.push(start);
      ends.push(at);
      lines.push(startLine);
    }
    isEmpty = true;
  };
  for await (const chunk of chunksOf(source)) {
    for (const byte of chunk) {
      if (quotes && byte === QUOTE) isQuoted = !isQuoted;
      if (byte === NEWLINE) {
        line += 1;
        if (!isQuoted) {
          end(position);
          start = position + 1;
          startLine = line;
        }
      } else if (byte !== 13 && byte !== 32 && byte !== 9) isEmpty = false;
      position += 1;
    }
  }
  if (isQuoted) throw wrong(`${source.name}, line ${startLine}`, 'a quote that is not closed');
  end(position);
  return {
    starts: Float64Array.from(starts),
    ends: Float64Array.from(ends),
    lines: Float64Array.from(lines),
  };
}

function fieldsOf(record: string, separator: string, name: string): readonly string[] {
  const fields: string[] = [];
  for (let at = 0; ; at += separator.length) {
    if (record[at] === '"') {
      let field = '';
      for (at += 1; ; at += 2) {
        const close = record.indexOf('"', at);
        field += record.slice(at, close);
        at = close;
        if (record[at + 1] !== '"') break;
        field += '"';
      }
      at += 1;
      fields.push(field);
      if (at < record.length && !record.startsWith(separator, at)) {
        throw wrong(name, 'text after a quote that closes a field');
      }
    } else {
      const next = record.indexOf(separator, at);
      const end = next < 0 ? record.length : next;
      fields.push(record.slice(at, end));
      at = end;
    }
    if (at >= record.length) return fields;
  }
}

function wrong(name: string, found: string, cause?: unknown): DataError {
  return new DataError(
    { asked: `the row of ${name}`, found, todo: 'Mend the file' },
    { name },
    { cause },
  );
}
