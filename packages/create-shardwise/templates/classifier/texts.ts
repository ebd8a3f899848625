import { readCsv, readJsonLines, textColumns } from '@shardwise/data';
import { fileBytes } from '@shardwise/data/node';

export interface Texts {
  /** The names of the classes. A label is a number in this list. */
  readonly classes: readonly string[];
  readonly rows: readonly { readonly text: string; readonly label: number }[];
}

/** Reads a CSV file whose first line is `text,label`, or lines such as {"text": "…", "label": "…"}. */
export async function readTexts(path: string): Promise<Texts> {
  const file = await fileBytes(path);
  const rows = path.endsWith('.csv') ? await readCsv(file) : await readJsonLines(file);
  const texts = await textColumns(rows, 'text', 'label');
  const labels: readonly string[] = texts.map(({ label }) => label);
  const classes = [...new Set(labels)].toSorted();
  return {
    classes,
    rows: texts.map(({ text, label }) => ({ text, label: classes.indexOf(label) })),
  };
}
