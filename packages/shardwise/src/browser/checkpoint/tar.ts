import { CheckpointError } from '@shardwise/core/extend';

// These are the headers of POSIX' ustar format, which the `tar` of every system reads and writes.
const BLOCK_BYTES = 512;
const fields = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  time: [136, 12],
  checksum: [148, 8],
  kind: [156, 1],
  magic: [257, 6],
  version: [263, 2],
  prefix: [345, 155],
} as const;
/** The largest size that the eleven octal digits of a header can express. */
const MAX_BYTES = 8 ** 11 - 1;
/** The limit for an entry that contains a path of more than 100 bytes. Such an entry is read into memory. */
const MAX_PATH_BYTES = 64 * 1024;

export interface ArchivedFile {
  readonly path: string;
  readonly contents: Blob;
}

/**
 * Returns files as an archive. Their bytes are read when the archive is. Throws CheckpointError for a file of 8 GiB or
 * more.
 */
export function tarOf(files: readonly ArchivedFile[], modifiedMs: number): Blob {
  const parts: BlobPart[] = [];
  for (const { path, contents } of files) {
    parts.push(header(path, contents.size, modifiedMs), contents);
    parts.push(new Uint8Array(paddingBytes(contents.size)));
  }
  // Two empty blocks mark the end of an archive.
  parts.push(new Uint8Array(2 * BLOCK_BYTES));
  return new Blob(parts, { type: 'application/x-tar' });
}

function paddingBytes(byteLength: number): number {
  return (BLOCK_BYTES - (byteLength % BLOCK_BYTES)) % BLOCK_BYTES;
}

function header(path: string, byteLength: number, modifiedMs: number): Uint8Array<ArrayBuffer> {
  if (byteLength > MAX_BYTES) {
    throw new CheckpointError(
      {
        asked: `${path} in an archive`,
        found: `${byteLength} bytes, where an archive takes ${MAX_BYTES} of a file`,
        todo: 'Save on more ranks, each of which writes a file of its own',
      },
      { path, byteLength },
    );
  }
  const block = new Uint8Array(BLOCK_BYTES);
  const write = (field: keyof typeof fields, text: string): void => {
    block.set(new TextEncoder().encode(text).subarray(0, fields[field][1]), fields[field][0]);
  };
  const octal = (field: keyof typeof fields, value: number): void =>
    write(field, value.toString(8).padStart(fields[field][1] - 1, '0'));
  write('name', path);
  octal('mode', 0o644);
  octal('uid', 0);
  octal('gid', 0);
  octal('size', byteLength);
  octal('time', Math.floor(modifiedMs / 1000));
  write('kind', '0');
  write('magic', 'ustar');
  write('version', '00');
  write('checksum', `${checksumOf(block).toString(8).padStart(6, '0')}\0 `);
  return block;
}

/** Returns the sum of a header's bytes. The bytes of the checksum field count as spaces. */
function checksumOf(block: Uint8Array): number {
  const [start, length] = fields.checksum;
  return block.reduce(
    (sum, byte, index) => sum + (index >= start && index < start + length ? 0x20 : byte),
    0,
  );
}

/** Returns the files of an archive. Throws CheckpointError if it is not an archive, or is cut off. */
export async function filesOfTar(archive: Blob, name: string): Promise<readonly ArchivedFile[]> {
  const files: ArchivedFile[] = [];
  let longPath: string | undefined;
  for (let offset = 0; offset + BLOCK_BYTES <= archive.size;) {
    const block = new Uint8Array(await archive.slice(offset, offset + BLOCK_BYTES).arrayBuffer());
    if (block.every((byte) => byte === 0)) return files;
    const { byteLength, kind, path } = parseHeader(block, name);
    const start = offset + BLOCK_BYTES;
    if (start + byteLength > archive.size) {
      throw noArchive(name, `${archive.size} bytes, and ${path} in it ends after these`);
    }
    const contents = archive.slice(start, start + byteLength);
    if ((kind === 'L' || kind === 'x') && byteLength > MAX_PATH_BYTES) {
      throw noArchive(name, `a path of ${byteLength} bytes, where ${MAX_PATH_BYTES} are taken`);
    }
    // A path of more than 100 bytes is stored as the contents of an entry in front of the file.
    if (kind === 'L') longPath = (await contents.text()).replace(/\0.*$/s, '');
    else if (kind === 'x')
      longPath = /(?:^|\n)\d+ path=([^\n]*)\n/.exec(await contents.text())?.[1];
    else {
      if (kind === '0' || kind === '\0' || kind === '') {
        files.push({ path: longPath ?? path, contents });
      }
      longPath = undefined;
    }
    offset = start + byteLength + paddingBytes(byteLength);
  }
  throw noArchive(name, `${archive.size} bytes, without the end of an archive`);
}

interface Header {
  readonly path: string;
  readonly byteLength: number;
  readonly kind: string;
}

function parseHeader(block: Uint8Array, archive: string): Header {
  const read = (field: keyof typeof fields): string => {
    const [start, length] = fields[field];
    return new TextDecoder().decode(block.subarray(start, start + length)).replace(/\0.*$/s, '');
  };
  const octal = (field: 'size' | 'checksum'): number => Number.parseInt(read(field).trim(), 8);
  if (!read('magic').startsWith('ustar') || octal('checksum') !== checksumOf(block)) {
    throw noArchive(archive, 'something else');
  }
  const [byteLength, prefix] = [octal('size'), read('prefix')];
  if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
    throw noArchive(archive, 'a size that is no number');
  }
  return {
    path: prefix === '' ? read('name') : `${prefix}/${read('name')}`,
    byteLength,
    kind: read('kind'),
  };
}

function noArchive(name: string, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `${name} as an archive (.tar) with a checkpoint`,
      found,
      todo: "Pick what checkpointFile() made, a .tar of a checkpoint's folder, or all files of that folder",
    },
    { name },
  );
}
