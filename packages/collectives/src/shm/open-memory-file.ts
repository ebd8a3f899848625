import { fstatSync, openSync, readlinkSync, closeSync } from 'node:fs';
import { ConfigError } from '@shardwise/core/spec';

/** A file in memory that a process of this host holds. */
export interface MemoryFile {
  readonly id: string;
  readonly pid: number;
  readonly fd: number;
}

/** The name of a file in memory, which nobody else can guess. */
export function memoryFileName(id: string): string {
  return `shardwise-${id}`;
}

/** Opens a file in memory of `byteLength` bytes. Throws ConfigError if it is not there any more. */
export function openMemoryFile(given: MemoryFile, byteLength: number): number {
  const path = `/proc/${given.pid}/fd/${given.fd}`;
  const expected = `/memfd:${memoryFileName(given.id)} (deleted)`;
  const found = readLink(path);
  if (found !== expected) throw goneError(given, `${path} is ${found}`);
  const file = openSync(path, 'r+');
  // Both are checked again, now for the file that was opened. There would be no memory after the end of a shorter file.
  const opened = readLink(`/proc/self/fd/${file}`);
  const fileBytes = fstatSync(file).size;
  if (opened === expected && fileBytes === byteLength) return file;
  closeSync(file);
  throw goneError(given, `${path} is ${opened} of ${fileBytes} bytes, not of ${byteLength}`);
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return 'not there';
    if (code === 'EACCES' || code === 'EPERM') return 'not accessible for this user';
    throw error;
  }
}

function goneError(given: MemoryFile, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `The memory that process ${given.pid} has made`,
      found,
      todo: 'Start both processes on the same host, as the same user, and join while the other process holds the memory',
    },
    { pid: given.pid, fd: given.fd },
  );
}
