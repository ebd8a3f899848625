import type { FolderEntry, RandomAccessFile, WritableFolder } from '@shardwise/core/extend';

/** A folder in the memory of this rank. */
export class MemoryFolder implements WritableFolder {
  readonly place: string;
  readonly #files = new Map<string, Uint8Array>();

  constructor(place: string) {
    this.place = place;
  }

  /** The files by name. */
  get files(): ReadonlyMap<string, Uint8Array> {
    return this.#files;
  }

  put(name: string, bytes: Uint8Array): void {
    this.#files.set(name, bytes);
  }

  async readText(name: string): Promise<string | undefined> {
    const bytes = this.#files.get(name);
    return bytes && new TextDecoder().decode(bytes);
  }

  async open(name: string): Promise<RandomAccessFile | undefined> {
    const bytes = this.#files.get(name);
    if (bytes === undefined) return undefined;
    return {
      byteLength: bytes.byteLength,
      gapBytes: 0,
      read: async (target, byteOffset) => {
        const found = bytes.subarray(byteOffset, byteOffset + target.byteLength);
        target.set(found);
        return found.byteLength;
      },
      close: async () => {},
    };
  }

  async list(prefix: string): Promise<readonly FolderEntry[]> {
    return [...this.#files]
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, { byteLength }]) => ({ name, byteLength, modifiedMs: 0 }));
  }

  async write(
    name: string,
    chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  ): Promise<void> {
    const parts: Uint8Array[] = [];
    for await (const chunk of chunks) parts.push(chunk);
    this.#files.set(name, Buffer.concat(parts));
  }

  async writeNew(name: string, contents: Uint8Array<ArrayBuffer>): Promise<boolean> {
    if (this.#files.has(name)) return false;
    this.#files.set(name, contents);
    return true;
  }

  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) this.#files.delete(name);
  }
}
