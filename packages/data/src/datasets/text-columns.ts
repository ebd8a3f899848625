import { DataError, describeValue } from '@shardwise/core/extend';
import type { Rows } from './rows.ts';

/**
 * The texts under some names of all rows, such as `text` and `label`, in memory. Numbers become texts, because files have
 * labels as both. Throws DataError that names the place of a row which lacks one of the names, or has something else under
 * it, and for a file without rows.
 */
export async function textColumns<Name extends string>(
  rows: Rows<unknown>,
  ...names: readonly Name[]
): Promise<readonly { readonly [Each in Name]: string }[]>;
export async function textColumns(
  rows: Rows<unknown>,
  ...names: readonly string[]
): Promise<readonly Readonly<Record<string, string>>[]> {
  if (!Number.isInteger(rows.length)) {
    throw wrongRow('the texts of rows', `${describeValue(rows)}, which is no rows`, names);
  }
  if (rows.length === 0) throw wrongRow('the rows of a file', 'a file without any', names);
  const read: Record<string, string>[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = await rows.get(index);
    read.push(textsOf(row, rows.nameOf(index), names));
  }
  return read;
}

function textsOf(row: unknown, place: string, names: readonly string[]): Record<string, string> {
  const asked = `the row of ${place}`;
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    throw wrongRow(asked, describeValue(row), names);
  }
  const values = new Map<string, unknown>(Object.entries(row));
  const texts = names.map((name) => {
    const value = values.get(name);
    if (typeof value === 'string') return [name, value] as const;
    if (typeof value === 'number') return [name, String(value)] as const;
    const found = values.has(name)
      ? `${name}: ${describeValue(value)}, which is no text`
      : `no ${name} among ${[...values.keys()].join(', ') || 'no names at all'}`;
    throw wrongRow(asked, found, names);
  });
  return Object.fromEntries(texts);
}

function wrongRow(asked: string, found: string, names: readonly string[]): DataError {
  const fields = names.map((name) => `"${name}": "…"`).join(', ');
  return new DataError(
    {
      asked,
      found,
      todo: `Give lines such as {${fields}}, or a CSV file whose first line is ${names.join(',')}`,
    },
    { names },
  );
}
