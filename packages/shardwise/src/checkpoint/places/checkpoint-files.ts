/** A file or folder that exists at a path. */
export interface FoundEntry {
  readonly isFile: boolean;
  /** The length of a file. It has no meaning for a folder. */
  readonly byteLength: number;
  /** When it was last changed, in milliseconds since the epoch. */
  readonly modifiedMs: number;
}

/** A file that is open. */
export interface OpenFile {
  /** Fills `bytes` from `byteOffset` on. Returns the number of bytes read, which is lower if the file ends earlier. */
  read(bytes: Uint8Array<ArrayBuffer>, byteOffset: number): Promise<number>;
  close(): Promise<void>;
}

/** The place where a checkpoint lies, to read from: a disk, a page's storage, or files that a visitor has picked. */
export interface ReadableFiles {
  /** Returns the path of an entry of a folder. */
  join(folder: string, name: string): string;
  /** Returns undefined if nothing is at the path. */
  find(path: string): Promise<FoundEntry | undefined>;
  open(path: string): Promise<OpenFile>;
  /** Returns the CRC-32 of zlib. */
  checksum(bytes: Uint8Array): number;
  /** Lists the names in a folder. Absent where no list can be had, as of a web server. */
  list?(path: string): Promise<readonly string[]>;
}

/** The place where a checkpoint lies, to write to. Each call is durable when its promise settles. */
export interface CheckpointFiles extends ReadableFiles {
  /** Lists the names in a folder. */
  list(path: string): Promise<readonly string[]>;
  makeDirectory(path: string): Promise<void>;
  /** Writes `chunks` one after the other. */
  writeFile(path: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void>;
  /**
   * Takes the final name of a folder before anything is written, where folders cannot be renamed. Their files are then
   * written under that name, and publish() has nothing to do. Rejects with the code EEXIST if another writer has it.
   */
  claim?(folder: string): Promise<void>;
  /** Renames a file atomically. It may replace an existing file. */
  rename(from: string, to: string): Promise<void>;
  /**
   * Gives a finished folder its final name. A reader that finds the file `index` under that name finds all other files
   * too. Rejects with the code EEXIST or ENOTEMPTY if there is a folder of that name.
   */
  publish(from: string, to: string, index: string): Promise<void>;
  /**
   * Takes the name of a folder away. The file `index` goes first, so that a reader never finds it without all other
   * files.
   */
  withdraw(from: string, to: string, index: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** Makes the entries of a directory durable. */
  syncDirectory(path: string): Promise<void>;
  /** The name of this writer. It is a part of the names of unfinished folders. */
  readonly writer: string;
  /** Whether another writer may still be writing folders that bear its name. Undefined if that cannot be known. */
  isWriting(writer: string): Promise<boolean | undefined>;
}
