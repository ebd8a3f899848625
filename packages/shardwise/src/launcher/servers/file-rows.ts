import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { OpenRows } from '@shardwise/parameter-server';

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
