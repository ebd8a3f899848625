import { closeSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { OpenRows } from '@shardwise/strategies';

/**
 * Rows of tables in files of a directory, which have holes where no row was written. A row that was written is there
 * again for the next process, also after this one was killed: it is the system's from then on.
 */
export function fileRows(directory: string, server: number): OpenRows {
  return (table, rows, width) => {
    mkdirSync(directory, { recursive: true });
    const file = openSync(join(directory, `table-${table}-${server}.f32`), 'a+');
    closeSync(file);
    const rowBytes = width * 4;
    const open = openSync(join(directory, `table-${table}-${server}.f32`), 'r+');
    ftruncateSync(open, rows * rowBytes);
    /** Calls `body` for each stretch of rows that lie side by side. */
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
