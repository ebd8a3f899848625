import {
  checkOptions,
  CollectiveError,
  ConfigError,
  functional,
  fromData,
  option,
  type OptionRules,
  Parameter,
  type RequestConnection,
  type Shape,
  ShapeError,
  type Tensor,
  TensorStateError,
} from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';
import { floatsOf, viewBytes } from '../protocol/arrays.ts';
import { rowRange } from '../protocol/key-ranges.ts';
import { isRefused } from '../protocol/refusal.ts';
import { withHead } from '../protocol/message.ts';
import type { TableRequest, TableSpec } from '../protocol/request.ts';

const RETRY_MS = 50;

/** Options of `ServerTable`. */
export interface ServerTableOptions {
  /** `context.servers` of a run with `--servers`. */
  readonly servers: ParameterServers;
  /** A name that no other table of the servers has: a letter or digit, then up to 63 letters, digits, - and _. */
  readonly name: string;
  readonly rows: number;
  /** The number of elements of a row. */
  readonly dims: number;
  /** The optimizer that updates rows. Default: SGD. */
  readonly optimizer?: 'SGD' | 'Adagrad';
  /** The learning rate. `lr` of the table may be changed later. */
  readonly lr: number;
  /** The term in Adagrad's denominator. Default: 1e-10. */
  readonly epsilon?: number;
  /** The standard deviation of the initial values, whose mean is 0. Default: 1, as in nn.Embedding. */
  readonly standardDeviation?: number;
  /** The seed of the initial values. Default: 0. */
  readonly seed?: number;
  /** Gradients are divided by this number. Pass the number of workers to get the effect of a mean. Default: 1. */
  readonly divideBy?: number;
  /** Milliseconds that a server may be unreachable. Default: 30,000. */
  readonly timeoutMs?: number;
}

const name: OptionRules<ServerTableOptions>['name'] = {
  fits: (value): value is string =>
    typeof value === 'string' && /^[A-Za-z0-9][\w-]{0,63}$/.test(value),
  expected: 'a letter or digit, then up to 63 letters, digits, - and _',
  isRequired: true,
};

const tableRules: OptionRules<ServerTableOptions> = {
  servers: option.required(option.object('the servers of a run, as init() gives them')),
  name,
  rows: option.required(option.integer(1, 2 ** 31 - 1)),
  dims: option.required(option.integer(1, 65_536)),
  optimizer: option.oneOf('SGD', 'Adagrad'),
  lr: option.required(option.nonNegative),
  epsilon: option.nonNegative,
  standardDeviation: option.nonNegative,
  seed: option.integer(0, 2 ** 32 - 1),
  divideBy: option.positive,
  timeoutMs: option.positive,
};

/** The rows of a lookup whose gradients have not been pushed yet. Shape: rows [n], weight [m, dims] with m >= n. */
interface Lookup {
  readonly rows: Int32Array;
  readonly weight: Parameter;
}

interface Pulled {
  readonly rows: Int32Array;
  readonly values: Float32Array;
  readonly positions: Tensor;
}

/** What a worker has sent and received of a table. Bytes are those of values and gradients, without row numbers. */
export interface TableTraffic {
  readonly pulledRows: number;
  readonly pulledBytes: number;
  readonly pushedRows: number;
  readonly pushedBytes: number;
}

/**
 * A table of vectors that only the servers keep. A step pulls the rows that it uses, and pushes their
 * gradients. Each push is applied when it arrives, separately.
 *
 * ```ts
 * const x = await table.lookup(words, [batch, length]); // [batch, length, dims]
 * loss(x).backward();
 * await table.step();
 * ```
 */
export class ServerTable {
  /** The learning rate of the next step. */
  lr: number;
  readonly #options: Required<ServerTableOptions>;
  readonly #spec: TableSpec;
  readonly #connections: (RequestConnection | undefined)[];
  readonly #client = crypto.randomUUID();
  #lookups: Lookup[] = [];
  #sequence = 0;
  #traffic: TableTraffic = { pulledRows: 0, pulledBytes: 0, pushedRows: 0, pushedBytes: 0 };

  private constructor(options: Required<ServerTableOptions>) {
    const { name: own, rows, dims, optimizer, lr, epsilon, standardDeviation, seed } = options;
    this.#options = options;
    this.lr = lr;
    this.#spec = { name: own, rows, dims, standardDeviation, seed, optimizer, epsilon };
    this.#connections = Array.from({ length: options.servers.size });
  }

  /**
   * Makes the table, or finds an existing one. Throws ConfigError for options out of range, and for a run
   * without servers.
   */
  static async open(options: ServerTableOptions): Promise<ServerTable> {
    if (options?.servers === undefined || options.servers.size === 0) throw noServersError();
    checkOptions('ServerTable.open', options, tableRules);
    const table = new ServerTable({
      optimizer: 'SGD',
      epsilon: 1e-10,
      standardDeviation: 1,
      seed: 0,
      divideBy: 1,
      timeoutMs: 30_000,
      ...options,
    });
    await Promise.all(table.#connections.map((_, shard) => table.#open(shard)));
    return table;
  }

  get traffic(): TableTraffic {
    return this.#traffic;
  }

  /**
   * The rows of indices, for a step: `step()` pushes their gradients. Shape: -> [...shape, dims]; by default
   * [indices.length, dims]. Throws ShapeError if the number of indices is not that of the shape, RefusedError
   * for indices that are not rows, and TensorStateError if gradients of an earlier step were not pushed.
   */
  async lookup(indices: Int32Array, shape: Shape = [indices.length]): Promise<Tensor> {
    this.#requireStep();
    const { rows, values, positions } = await this.#pull(indices, shape);
    const weight = new Parameter(values, [indices.length, this.#spec.dims]);
    this.#lookups.push({ rows, weight });
    return functional.embedding(positions, weight);
  }

  /** The rows of indices with their present values, without gradients. Shapes and errors are those of `lookup`. */
  async read(indices: Int32Array, shape: Shape = [indices.length]): Promise<Tensor> {
    const { values, positions } = await this.#pull(indices, shape);
    const weight = fromData(values, [indices.length, this.#spec.dims], 'f32');
    return functional.embedding(positions, weight);
  }

  /**
   * Pushes the gradients of the rows that were looked up since the last step. Rows that no loss has used are
   * left out.
   */
  async step(): Promise<void> {
    const { dims } = this.#spec;
    const { divideBy } = this.#options;
    const lookups = this.#lookups;
    this.#lookups = [];
    const sums = new Map<number, Float32Array>();
    for (const { rows, weight } of lookups) {
      if (weight.grad === null) continue;
      const gradient = (await weight.grad.data()) as Float32Array;
      rows.forEach((row, place) => {
        const own = gradient.subarray(place * dims, (place + 1) * dims);
        const sum = sums.get(row);
        if (sum === undefined) sums.set(row, own.slice());
        else for (let dim = 0; dim < dims; dim++) sum[dim] = (sum[dim] ?? 0) + (own[dim] ?? 0);
      });
    }
    for (const { weight } of lookups) weight.dispose();
    if (sums.size === 0) return;
    const rows = Int32Array.from(sums.keys()).toSorted();
    const gradients = new Float32Array(rows.length * dims);
    rows.forEach((row, place) => gradients.set(sums.get(row) ?? [], place * dims));
    if (divideBy !== 1) gradients.forEach((each, index) => (gradients[index] = each / divideBy));
    const sequence = ++this.#sequence;
    const push = { name: this.#spec.name, client: this.#client, sequence, lr: this.lr };
    await this.#eachRange(rows, async (shard, own, start) => {
      const sent = gradients.subarray(start * dims, (start + own.length) * dims);
      const request = { kind: 'pushRows', shard, ...push } as const;
      await this.#request(shard, request, [viewBytes(own), viewBytes(sent)]);
    });
    this.#count({ pushedRows: rows.length, pushedBytes: rows.length * dims * 4 });
  }

  /**
   * Pulls each row once. Shapes: -> values [indices.length, dims], of which the first rows are used; positions i32
   * shape.
   */
  async #pull(indices: Int32Array, shape: Shape): Promise<Pulled> {
    const { dims } = this.#spec;
    const size = shape.reduce((product, each) => product * each, 1);
    if (size !== indices.length) throw shapeError(indices.length, shape);
    const rows = Int32Array.from(new Set(indices)).toSorted();
    const places = new Map([...rows].map((row, place) => [row, place]));
    // As many rows as indices, whatever number is distinct, so that batches of the same shape run one plan.
    const values = new Float32Array(indices.length * dims);
    await this.#eachRange(rows, async (shard, own, start) => {
      const request = { kind: 'pullRows', shard, name: this.#spec.name } as const;
      await this.#request(shard, request, [viewBytes(own)], ([, bytes]) => {
        values.set(floatsOf(bytes), start * dims);
      });
    });
    this.#count({ pulledRows: rows.length, pulledBytes: rows.length * dims * 4 });
    const positions = Int32Array.from(indices, (index) => places.get(index) ?? 0);
    return { rows, values, positions: fromData(positions, shape, 'i32') };
  }

  close(): void {
    for (const connection of this.#connections) connection?.close();
  }

  /** Throws TensorStateError if a backward pass has made gradients that no step has pushed. */
  #requireStep(): void {
    const forgotten = this.#lookups.filter(({ weight }) => weight.grad !== null).length;
    if (forgotten === 0) return;
    throw new TensorStateError(
      {
        asked: `a lookup in the table '${this.#spec.name}'`,
        found: 'gradients of the previous step that were not pushed',
        todo: 'Call `await table.step()` after backward(), or evaluate with read()',
      },
      { table: this.#spec.name },
    );
  }

  /** Calls `body` for the rows of each server that has some. `start` is the place of the first of them in `rows`. */
  async #eachRange(
    rows: Int32Array,
    body: (shard: number, own: Int32Array, start: number) => Promise<void>,
  ): Promise<void> {
    const { servers } = this.#options;
    let start = 0;
    const calls: Promise<void>[] = [];
    for (let shard = 0; shard < servers.size; shard++) {
      const { end: limit } = rowRange(this.#spec.rows, servers.size, shard);
      let end = start;
      // A number that is not a row of the table goes to the last server, which refuses it.
      while (end < rows.length && ((rows[end] ?? 0) < limit || shard === servers.size - 1)) end++;
      if (end > start) calls.push(body(shard, rows.slice(start, end), start));
      start = end;
    }
    await Promise.all(calls);
  }

  async #open(shard: number): Promise<void> {
    await this.#request(shard, { kind: 'openTable', shard, table: this.#spec }, []);
  }

  async #request(
    shard: number,
    request: TableRequest,
    arrays: readonly Uint8Array[],
    read: (answer: readonly Uint8Array[]) => void = () => {},
  ): Promise<void> {
    const { servers, timeoutMs } = this.#options;
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      try {
        const connection = (this.#connections[shard] ??= await servers.connect(shard));
        return await connection.request(withHead(request, arrays), read);
      } catch (error) {
        // A server that has started again has the rows, but does not know the table yet.
        if (isRefused(error, 'not-initialised') && request.kind !== 'openTable') {
          await this.#open(shard);
          continue;
        }
        const isLost = CollectiveError.isInstance(error) && error.fields['lost'] !== undefined;
        if (!isLost || performance.now() + RETRY_MS > deadline) throw error;
        this.#connections[shard]?.close();
        this.#connections[shard] = undefined;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  #count(more: Partial<TableTraffic>): void {
    const { pulledRows = 0, pulledBytes = 0, pushedRows = 0, pushedBytes = 0 } = more;
    const before = this.#traffic;
    this.#traffic = {
      pulledRows: before.pulledRows + pulledRows,
      pulledBytes: before.pulledBytes + pulledBytes,
      pushedRows: before.pushedRows + pushedRows,
      pushedBytes: before.pushedBytes + pushedBytes,
    };
  }
}

function noServersError(): ConfigError {
  return new ConfigError({
    asked: 'a table on parameter servers',
    found: 'a run without servers',
    todo: 'Start it by `shardwise run --servers 1 train.ts`, and give the table the servers of init()',
  });
}

function shapeError(indices: number, shape: Shape): ShapeError {
  return new ShapeError(
    {
      asked: `a lookup of ${indices} indices as [${shape.join(', ')}]`,
      found: 'another number of elements',
      todo: 'Give the shape of the indices',
    },
    { indices, shape },
  );
}
