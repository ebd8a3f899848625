import { readdirSync, readFileSync, statfsSync } from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism, hostname, loadavg, release, totalmem } from 'node:os';
import { askNativePart, type NativePart, type NativeAnswer } from './native-part.ts';

/** Everything that probes know of the machine. Tests give them a machine of their own. */
export interface Readings {
  readonly node: string;
  readonly platform: string;
  readonly architecture: string;
  readonly kernel: string;
  readonly host: string;
  /** The cores that this process may use. */
  readonly cores: number;
  /** Returns the processes that ran or waited for a core in the last minute, on average. It is 0 on Windows. */
  readonly load: () => number;
  readonly memoryBytes: number;
  readonly now: () => number;
  /** Returns the text of a file. Returns undefined if there is none, or this user may not read it. */
  readonly read: (path: string) => string | undefined;
  /** Returns the names in a folder, sorted. There are none if there is no such folder. */
  readonly list: (path: string) => readonly string[];
  /** Returns the size of the file system at a path. Returns undefined if there is none. */
  readonly fileSystem: (
    path: string,
  ) => { readonly totalBytes: number; readonly freeBytes: number } | undefined;
  /** Returns why no server can listen at a port of this host. Returns undefined if one can. */
  readonly portError: (port: number) => Promise<string | undefined>;
  /** Tries a native part in a process of its own, which it may end or block. */
  readonly native: (part: NativePart) => Promise<NativeAnswer>;
}

/** Files of the kernel are short. A longer one is cut. */
const MAX_FILE_BYTES = 1 << 20;

/** The readings of this machine. */
export function systemReadings(): Readings {
  return {
    node: process.version,
    platform: process.platform,
    architecture: process.arch,
    kernel: release(),
    host: hostname(),
    cores: availableParallelism(),
    load: () => loadavg()[0] ?? 0,
    memoryBytes: totalmem(),
    now: Date.now,
    read: (path) => orUndefined(() => readFileSync(path, 'utf8').slice(0, MAX_FILE_BYTES)),
    list: (path) => orUndefined(() => readdirSync(path).toSorted()) ?? [],
    fileSystem: (path) =>
      orUndefined(() => {
        const { blocks, bavail, bsize } = statfsSync(path);
        return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
      }),
    portError,
    native: askNativePart,
  };
}

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    // It isn't there, or not for this user. Both say that nothing is known.
    return undefined;
  }
}

function portError(port: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const server = createServer();
  server.once('error', (error) => resolve('code' in error ? String(error.code) : error.message));
  server.listen(port, () => server.close(() => resolve(undefined)));
  return promise;
}
