import { withHead } from '../protocol/message.ts';
import { refusal } from '../protocol/refusal.ts';
import type { OpenRows } from './row-store.ts';
import { ServedTable, type TableStatistics } from './served-table.ts';
import type { OpenTableRequest, TableRequest } from '../protocol/request.ts';

/** The most bytes of an answer. */
const MAX_ANSWER_BYTES = 1 << 29;

export interface TableHostOptions {
  readonly server: number;
  readonly servers: number;
  readonly openRows: OpenRows;
}

/** The tables of a server. It has some rows of each. */
export class TableHost {
  readonly #options: TableHostOptions;
  readonly #tables = new Map<string, ServedTable>();

  constructor(options: TableHostOptions) {
    this.#options = options;
  }

  get statistics(): Readonly<Record<string, TableStatistics>> {
    return Object.fromEntries([...this.#tables].map(([name, table]) => [name, table.statistics]));
  }

  answer(request: TableRequest, arrays: readonly Uint8Array[]): readonly Uint8Array[] {
    switch (request.kind) {
      case 'openTable':
        this.#open(request);
        return withHead({});
      case 'pullRows': {
        const table = this.#of(request.name);
        const rows = rowsOf(arrays[0]);
        const bytes = rows.length * table.spec.dims * 4;
        if (bytes > MAX_ANSWER_BYTES) throw tooLong(bytes);
        return withHead({}, [new Uint8Array(table.pull(rows).buffer)]);
      }
      case 'pushRows': {
        const [rows, gradients = new Uint8Array(0)] = arrays;
        const values = new Float32Array(gradients.slice(0, gradients.length & ~3).buffer);
        this.#of(request.name).push(request, rowsOf(rows), values);
        return withHead({});
      }
      default:
        return request satisfies never;
    }
  }

  close(): void {
    for (const table of this.#tables.values()) table.close();
  }

  #open({ table }: OpenTableRequest): void {
    const { server, servers, openRows } = this.#options;
    const known = this.#tables.get(table.name);
    if (known === undefined) {
      this.#tables.set(table.name, new ServedTable(table, server, servers, openRows));
      return;
    }
    const [own, given] = [JSON.stringify(known.spec), JSON.stringify(table)];
    if (own === given) return;
    throw refusal('other-model', {
      asked: `the table '${table.name}'`,
      found: `it is ${own} here, and ${given} is asked for`,
      todo: 'Give every worker the same table, and each table a name of its own',
    });
  }

  #of(name: string): ServedTable {
    const table = this.#tables.get(name);
    if (table !== undefined) return table;
    throw refusal('not-initialised', {
      asked: `rows of the table '${name}'`,
      found: 'this server has no such table, or has begun again',
      todo: 'Open the table first',
    });
  }
}

function rowsOf(bytes: Uint8Array = new Uint8Array(0)): Int32Array {
  if (bytes.byteLength % 4 === 0) return new Int32Array(bytes.slice().buffer);
  throw refusal('malformed', {
    asked: 'numbers of rows',
    found: `${bytes.byteLength} bytes`,
    todo: 'Send whole numbers of 32 bits',
  });
}

function tooLong(bytes: number): Error {
  return refusal('oversized', {
    asked: `an answer of ${bytes} bytes`,
    found: `the limit is ${MAX_ANSWER_BYTES}`,
    todo: 'Look up fewer rows at once',
  });
}
