import { DataError } from 'shardwise/browser';

/** What a text field can show without making the page slow. */
const mostBytes = 4e6;

/** The text of files that the visitor has picked, one after the other. Throws DataError for what is no text, and names the file. */
export async function textOf(files: readonly File[]): Promise<string> {
  const byteLength = files.reduce((sum, { size }) => sum + size, 0);
  if (byteLength > mostBytes) {
    const found = `${byteLength.toLocaleString('en')} bytes, more than ${mostBytes / 1e6} million`;
    throw refused(namesOf(files), found, 'Pick a part of it');
  }
  const texts: string[] = [];
  for (const file of files) texts.push(await decode(file));
  return texts.join('\n');
}

/** As a sentence has them. */
export function namesOf(files: readonly File[]): string {
  return new Intl.ListFormat('en').format(files.map(({ name }) => name));
}

async function decode(file: File): Promise<string> {
  if (file.size === 0) throw refused(file.name, 'it is empty', 'Pick another file');
  const text = await file
    .arrayBuffer()
    .then((bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    .catch(() => undefined);
  // Pictures, archives and texts of 16 bits a character that happen to be valid have zeros.
  if (text !== undefined && !text.includes('\0')) return text;
  throw refused(
    file.name,
    "it is no text in UTF-8, or can't be read",
    'Pick a text: other bytes could be learnt, but not shown',
  );
}

function refused(name: string, found: string, todo: string): DataError {
  return new DataError({ asked: `the text of ${name}`, found, todo }, { name });
}
