import { ConfigError, describeValue } from '@shardwise/core/extend';

/** Bytes at an address: a file, or what a server has. */
export interface ByteSource {
  /** What messages call it. */
  readonly name: string;
  /** The number of bytes. */
  readonly size: number;
  /** The bytes from `start` to before `end`, which both lie within the source. */
  read(start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
}

/** Throws ConfigError for what is no source, such as the promise of one, which would have no rows. */
export function checkSource(source: ByteSource): void {
  const given: Partial<ByteSource> = source;
  if (typeof given.size === 'number' && typeof given.read === 'function') return;
  throw new ConfigError({
    asked: 'the rows of a file',
    found: `${describeValue(source)} in the place of its bytes`,
    todo: 'Give await fileBytes(path), await httpBytes(url), or memoryBytes(bytes)',
  });
}

/** How much of a source is read at once where it is read from its beginning to its end. */
const CHUNK_BYTES = 1 << 20;

/** The bytes of a source from its beginning to its end, in chunks. */
export async function* chunksOf(source: ByteSource): AsyncIterable<Uint8Array<ArrayBuffer>> {
  for (let start = 0; start < source.size; start += CHUNK_BYTES) {
    yield await source.read(start, Math.min(source.size, start + CHUNK_BYTES));
  }
}

/** Bytes that are in memory. */
export function memoryBytes(bytes: Uint8Array<ArrayBuffer>, name = 'memory'): ByteSource {
  return { name, size: bytes.length, read: async (start, end) => bytes.slice(start, end) };
}
