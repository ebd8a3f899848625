import { readFileSync } from 'node:fs';
import { z } from 'zod';

const fileSchema = z.object({
  source: z.string(),
  columns: z.array(z.string()),
  rows: z.array(z.array(z.union([z.number(), z.string(), z.boolean()]))),
});

/** A row of a measured table, by the names of its columns. */
export type Row = Readonly<Record<string, number | string | boolean>>;

/** Reads a table of `test/measured/rows`. */
export function readRows(name: string): readonly Row[] {
  const path = new URL(`./rows/${name}`, import.meta.url);
  const { columns, rows } = fileSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  return rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at] ?? 0])));
}
