import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { fillFromFile, syncDirectory, writeAt } from '@shardwise/core/node';
import type { CheckpointFiles } from './checkpoint-files.ts';

const WRITER = /^(.+)-(\d+)$/;

/** The files of the disk. */
export const diskFiles: CheckpointFiles = {
  join,
  checksum: (bytes) => crc32(bytes),

  async find(path) {
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) return undefined;
    return { isFile: found.isFile(), byteLength: found.size, modifiedMs: found.mtimeMs };
  },

  async open(path) {
    const handle = await open(path, 'r');
    return {
      read: (bytes, byteOffset) => fillFromFile(handle, bytes, byteOffset),
      close: () => handle.close(),
    };
  },

  list: (path) => readdir(path),

  async makeDirectory(path) {
    await mkdir(path, { recursive: true });
  },

  async writeFile(path, chunks) {
    await using file = await open(path, 'w');
    let written = 0;
    for await (const chunk of chunks) {
      await writeAt(file, chunk, written);
      written += chunk.byteLength;
    }
    await file.sync();
  },

  rename,
  publish: rename,
  withdraw: rename,

  async removeDirectory(path) {
    await rm(path, { recursive: true, force: true });
  },

  syncDirectory,

  writer: `${hostname()}-${process.pid}`,

  async isWriting(writer) {
    const [, host, pid] = WRITER.exec(writer) ?? [];
    if (host !== hostname()) return undefined;
    // This process writes one checkpoint after the other, so any other unfinished folder of it is abandoned.
    return Number(pid) !== process.pid && isAlive(Number(pid));
  },
};

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM means that the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
