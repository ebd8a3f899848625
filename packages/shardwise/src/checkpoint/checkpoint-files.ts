/** What is at a path. */
export interface FoundEntry {
  readonly isFile: boolean;
  /** Of a file. */
  readonly byteLength: number;
  /** Since the epoch. */
  readonly modifiedMs: number;
}

/** A file that is open. */
export interface OpenFile {
  /** Fills `bytes` with what is at `byteOffset`; returns how many there were, where the file ends earlier. */
  read(bytes: Uint8Array<ArrayBuffer>, byteOffset: number): Promise<number>;
  close(): Promise<void>;
}

/** What reading a checkpoint asks of the place where it lies: a disk, a page's storage, files that a visitor has picked. */
export interface ReadableFiles {
  /** The path of an entry of a folder. */
  join(folder: string, name: string): string;
  /** Undefined where there is nothing. */
  find(path: string): Promise<FoundEntry | undefined>;
  open(path: string): Promise<OpenFile>;
  /** CRC-32, as of zlib. */
  checksum(bytes: Uint8Array): number;
}

/** What writing a checkpoint asks of such a place; each call is durable when its promise settles. */
export interface CheckpointFiles extends ReadableFiles {
  /** The names in a folder. */
  list(path: string): Promise<readonly string[]>;
  makeDirectory(path: string): Promise<void>;
  /** `chunks` are written one after the other. */
  writeFile(path: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void>;
  /** Atomic; of a file, and the target may be one that exists. */
  rename(from: string, to: string): Promise<void>;
  /**
   * Gives a folder its name: whoever finds the file `index` in it finds all of it. Rejects with the code EEXIST or ENOTEMPTY where
   * there is a folder of that name.
   */
  publish(from: string, to: string, index: string): Promise<void>;
  /** Takes a folder its name: nobody finds `index` in it who does not find all of it. */
  withdraw(from: string, to: string, index: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** Makes the entries of a directory durable. */
  syncDirectory(path: string): Promise<void>;
  /** Who writes here, for the names of what is not finished. */
  readonly writer: string;
  /** Whether another writer, or this one, may still be at work on what bears its name; undefined where nobody can say. */
  isWriting(writer: string): Promise<boolean | undefined>;
}
