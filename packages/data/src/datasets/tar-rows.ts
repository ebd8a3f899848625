import { checkIndex, DataError } from '@shardwise/core/extend';
import { type ByteSource, checkSource } from './byte-source.ts';
import type { Rows } from './rows.ts';

/** A sample of a tar shard: the bytes of its files by their extensions, such as `jpg` and `cls`. */
export interface TarSample {
  /** What the names of the files have in common. */
  readonly key: string;
  readonly files: Readonly<Record<string, Uint8Array<ArrayBuffer>>>;
}

const BLOCK = 512;
const decoder = new TextDecoder();

interface Member {
  readonly extension: string;
  readonly start: number;
  readonly end: number;
}

/**
 * The samples of a tar file as WebDataset writes it: neighbouring files whose names are equal up to the first point of
 * their last part are one sample. Only the headers are read to find them. Throws DataError for a damaged file.
 */
export async function readTar(source: ByteSource): Promise<Rows<TarSample>> {
  checkSource(source);
  const samples: { readonly key: string; readonly members: Member[] }[] = [];
  let longName: string | undefined;
  for (let at = 0; at + BLOCK <= source.size;) {
    const header = await source.read(at, at + BLOCK);
    if (header.every((byte) => byte === 0)) break;
    const { name, bytes, type } = parseHeader(header, source.name, at);
    const start = at + BLOCK;
    const end = start + bytes;
    if (end > source.size)
      throw damaged(source.name, at, `a file of ${bytes} bytes beyond the end`);
    at = start + Math.ceil(bytes / BLOCK) * BLOCK;
    if (type === 'L' || type === 'x') {
      const text = decoder.decode(await source.read(start, Math.min(end, start + 65_536)));
      longName = type === 'L' ? text.replace(/\0.*$/s, '') : (pathOf(text) ?? longName);
    }
    // Folders, links and comments are no files.
    if (type !== '0' && type !== '\0') continue;
    const path = longName ?? name;
    longName = undefined;
    const slash = path.lastIndexOf('/') + 1;
    const point = path.indexOf('.', slash);
    if (point < 0) continue;
    const [key, extension] = [path.slice(0, point), path.slice(point + 1)];
    const last = samples.at(-1);
    if (last?.key !== key) samples.push({ key, members: [{ extension, start, end }] });
    else if (last.members.some((member) => member.extension === extension)) {
      throw damaged(source.name, start, `two files ${path}`);
    } else last.members.push({ extension, start, end });
  }
  return {
    length: samples.length,
    get: async (index) => {
      checkIndex(index, samples.length);
      const { key = '', members = [] } = samples[index] ?? {};
      const files = await Promise.all(
        members.map(
          async ({ extension, start, end }) => [extension, await source.read(start, end)] as const,
        ),
      );
      return { key, files: Object.fromEntries(files) };
    },
    nameOf: (index) => `${source.name}, ${samples[index]?.key}`,
  };
}

function parseHeader(
  header: Uint8Array,
  source: string,
  at: number,
): { readonly name: string; readonly bytes: number; readonly type: string } {
  const text = (start: number, length: number): string =>
    decoder.decode(header.subarray(start, start + length)).replace(/\0.*$/s, '');
  // The sum is computed with blanks in the place of itself.
  const sum = header.reduce((all, byte, i) => all + (i >= 148 && i < 156 ? 32 : byte), 0);
  if (Number.parseInt(text(148, 8).trim(), 8) !== sum) {
    throw damaged(source, at, 'a header with another checksum');
  }
  const bytes = Number.parseInt(text(124, 12).trim(), 8);
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    throw damaged(source, at, 'a size that is no number');
  const prefix = text(257, 5) === 'ustar' ? text(345, 155) : '';
  const name = prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`;
  return { name, bytes, type: String.fromCharCode(header[156] ?? 0) };
}

/** The path of a pax header, whose lines are such as `30 path=a/b.txt`. */
function pathOf(text: string): string | undefined {
  return /^\d+ path=(.*)$/m.exec(text)?.[1];
}

function damaged(name: string, at: number, found: string): DataError {
  return new DataError(
    {
      asked: `the files of ${name}`,
      found: `${found}, at byte ${at}`,
      todo: 'Fetch or write the tar file again',
    },
    { name, at },
  );
}
