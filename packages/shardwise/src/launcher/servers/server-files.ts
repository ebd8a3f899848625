import { readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { decodeSafetensors, encodeSafetensors, hostArray } from '@shardwise/core/extend';
import type { OpenRows, SnapshotStore } from '@shardwise/parameter-server';
import { diskFiles } from '../../checkpoint/places/disk-files.ts';
import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';

/** Keeps snapshots of a parameter server in one file. A new snapshot replaces the old one when it is on the disk. */
export function fileSnapshots(path: string): SnapshotStore {
  return {
    async write(head, arrays) {
      const named = arrays.map((bytes, index) => {
        return [String(index), hostArray('u8', [bytes.byteLength], bytes)] as const;
      });
      const next = `${path}.next`;
      await diskFiles.writeFile(next, [encodeSafetensors(Object.fromEntries(named), { head })]);
      await rename(next, path);
      await diskFiles.syncDirectory(dirname(path));
    },
    async read() {
      const file = await readFile(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined;
        throw error;
      });
      if (file === undefined) return undefined;
      const { tensors, metadata } = decodeSafetensors(file);
      const { head = '' } = metadata;
      const arrays = Object.keys(tensors).map((_, index) => {
        return new Uint8Array(tensors[String(index)]?.bytes ?? []);
      });
      return { head, arrays };
    },
  };
}

/**
 * Keeps rows of tables in files of a directory. The files have holes where no row was written. The operating system has
 * each row as soon as it is written, so the next process finds it even if this one was killed.
 */
export function fileRows(directory: string, server: number): OpenRows {
  return (table, rows, width) => {
    mkdirSync(directory, { recursive: true });
    const file = openSync(join(directory, `table-${table}-${server}.f32`), 'a+');
    closeSync(file);
    const rowBytes = width * 4;
    const open = openSync(join(directory, `table-${table}-${server}.f32`), 'r+');
    ftruncateSync(open, rows * rowBytes);
    /** Calls `body` for each stretch of consecutive rows. */
    const stretches = (
      numbers: Int32Array,
      values: Float32Array,
      body: (bytes: Uint8Array, position: number) => void,
    ): void => {
      const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      let start = 0;
      while (start < numbers.length) {
        let end = start + 1;
        while (end < numbers.length && numbers[end] === (numbers[end - 1] ?? 0) + 1) end++;
        body(bytes.subarray(start * rowBytes, end * rowBytes), (numbers[start] ?? 0) * rowBytes);
        start = end;
      }
    };
    return {
      read: (numbers, values) =>
        stretches(numbers, values, (bytes, position) => {
          for (let done = 0; done < bytes.length;) {
            const read = readSync(open, bytes, done, bytes.length - done, position + done);
            if (read === 0) throw new RangeError(`the file of table ${table} ends early`);
            done += read;
          }
        }),
      write: (numbers, values) =>
        stretches(numbers, values, (bytes, position) => {
          for (let done = 0; done < bytes.length;) {
            done += writeSync(open, bytes, done, bytes.length - done, position + done);
          }
        }),
      close: () => closeSync(open),
    };
  };
}
