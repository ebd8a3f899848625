import { type KeyRange, rowRange } from '../protocol/key-ranges.ts';
import { refusal } from '../protocol/refusal.ts';
import type { OpenRows, RowStore } from './row-store.ts';
import type { PushRowsRequest, TableSpec } from '../protocol/request.ts';

/** What a server has counted for a table. */
export interface TableStatistics {
  readonly pulledRows: number;
  readonly pushedRows: number;
  readonly duplicates: number;
}

/**
 * A server's rows of a table. A stored row is a mark that it has been written, then its values, then the optimizer's
 * states of it. A row without the mark has its initial values.
 */
export class ServedTable {
  readonly spec: TableSpec;
  readonly #range: KeyRange;
  readonly #store: RowStore;
  readonly #width: number;
  readonly #sequences = new Map<string, number>();
  #pulledRows = 0;
  #pushedRows = 0;
  #duplicates = 0;

  constructor(spec: TableSpec, server: number, servers: number, openRows: OpenRows) {
    this.spec = spec;
    this.#range = rowRange(spec.rows, servers, server);
    this.#width = 1 + spec.dims * (spec.optimizer === 'Adagrad' ? 2 : 1);
    this.#store = openRows(spec.name, this.#range.end - this.#range.start, this.#width);
  }

  get statistics(): TableStatistics {
    return {
      pulledRows: this.#pulledRows,
      pushedRows: this.#pushedRows,
      duplicates: this.#duplicates,
    };
  }

  /** Returns the values of rows. Shape: rows [n] -> [n, dims]. Throws RefusedError for rows of other servers. */
  pull(rows: Int32Array): Float32Array {
    const { dims } = this.spec;
    const records = this.#records(rows);
    const values = new Float32Array(rows.length * dims);
    for (let index = 0; index < rows.length; index++) {
      const place = index * this.#width + 1;
      values.set(records.subarray(place, place + dims), index * dims);
    }
    this.#pulledRows += rows.length;
    return values;
  }

  /**
   * Updates rows by their gradients. Shapes: rows [n], gradients [n, dims]. Throws RefusedError before any row is
   * changed.
   */
  push({ client, sequence, lr }: PushRowsRequest, rows: Int32Array, gradients: Float32Array): void {
    const { dims, optimizer, epsilon } = this.spec;
    if (gradients.length !== rows.length * dims) {
      throw refusal(gradients.length > rows.length * dims ? 'oversized' : 'malformed', {
        asked: `gradients of ${rows.length} rows of '${this.spec.name}'`,
        found: `${gradients.length} values where ${rows.length * dims} are due`,
        todo: 'Send one f32 value for each element of the rows',
      });
    }
    if (sequence <= (this.#sequences.get(client) ?? 0)) {
      this.#duplicates++;
      return;
    }
    const records = this.#records(rows);
    for (let index = 0; index < rows.length; index++) {
      const place = index * this.#width;
      records[place] = 1;
      for (let dim = 0; dim < dims; dim++) {
        const at = place + 1 + dim;
        const gradient = gradients[index * dims + dim] ?? 0;
        let divisor = 1;
        if (optimizer === 'Adagrad') {
          const sum = Math.fround((records[at + dims] ?? 0) + Math.fround(gradient * gradient));
          records[at + dims] = sum;
          divisor = Math.fround(Math.fround(Math.sqrt(sum)) + epsilon);
        }
        records[at] = (records[at] ?? 0) - Math.fround(lr * gradient) / divisor;
      }
    }
    this.#store.write(this.#local(rows), records);
    this.#sequences.set(client, sequence);
    this.#pushedRows += rows.length;
  }

  close(): void {
    this.#store.close();
  }

  #records(rows: Int32Array): Float32Array {
    this.#check(rows);
    const records = new Float32Array(rows.length * this.#width);
    this.#store.read(this.#local(rows), records);
    for (let index = 0; index < rows.length; index++) {
      const place = index * this.#width;
      if (records[place] === 1) continue;
      const values = records.subarray(place + 1, place + 1 + this.spec.dims);
      fillInitialRow(values, rows[index] ?? 0, this.spec);
    }
    return records;
  }

  #check(rows: Int32Array): void {
    const { start, end } = this.#range;
    let before = start - 1;
    for (const row of rows) {
      if (row > before && row < end) {
        before = row;
        continue;
      }
      throw refusal('malformed', {
        asked: `row ${row} of table '${this.spec.name}'`,
        found: `this server has rows ${start} to ${end - 1}, and takes them in ascending order, each once`,
        todo: 'Use indices from 0 to the number of rows - 1',
      });
    }
  }

  #local(rows: Int32Array): Int32Array {
    return rows.map((row) => row - this.#range.start);
  }
}

/** Hashes a seed and a place to a pseudorandom number from 0 to 2^32 - 1, as the finalizer of MurmurHash3 does. */
function hash(seed: number, place: number): number {
  let mixed = Math.imul(seed ^ Math.imul(place, 0x9e_37_79_b1), 0x85_eb_ca_6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2_b2_ae_35);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x27_d4_eb_2f);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** Fills a row with normally distributed values. They depend only on the seed and the row. Shape: values [dims]. */
function fillInitialRow(
  values: Float32Array,
  row: number,
  { seed, standardDeviation }: { readonly seed: number; readonly standardDeviation: number },
): void {
  const rowSeed = hash(seed, row);
  for (let index = 0; index < values.length; index++) {
    // The Box-Muller transform. `first` is never 0.
    const first = (hash(rowSeed, 2 * index) + 1) / 2 ** 32;
    const second = hash(rowSeed, 2 * index + 1) / 2 ** 32;
    const normal = Math.sqrt(-2 * Math.log(first)) * Math.cos(2 * Math.PI * second);
    values[index] = standardDeviation * normal;
  }
}
