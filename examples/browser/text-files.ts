import { DataError } from 'shardwise/browser';

/** The greatest number of bytes that a text field can show without making the page slow. */
const mostBytes = 4e6;

/**
 * Returns the text of files that the visitor has picked, one after the other. Throws a DataError that names the file if
 * it is not text.
 */
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

/** Returns the names as a list in a sentence. */
export function namesOf(files: readonly File[]): string {
  return new Intl.ListFormat('en').format(files.map(({ name }) => name));
}

async function decode(file: File): Promise<string> {
  if (file.size === 0) throw refused(file.name, 'it is empty', 'Pick another file');
  const text = await file
    .arrayBuffer()
    .then((bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    .catch(() => undefined);
  // Pictures, archives and texts with 16 bits per character may be valid UTF-8, but they contain zeros.
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
