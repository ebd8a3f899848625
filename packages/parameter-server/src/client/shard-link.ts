import { CollectiveError, type RequestConnection } from '@shardwise/core/extend';
import type { ParameterServers } from '../protocol/parameter-servers.ts';
import { isRefused } from '../protocol/refusal.ts';
import { readAnswer, readJoined, type ServerAnswer, withHead } from '../protocol/message.ts';
import type { ServedJob } from '../protocol/job.ts';
import type { AnyRequest, PushRequest, ServerRequest } from '../protocol/request.ts';

/** The milliseconds before a server that did not answer is tried again. */
const RETRY_MS = 50;
/** The refusals of a server that has started again from a snapshot. */
const forgotten = ['unknown-worker', 'gap'] as const;
/** The milliseconds that a server may take to answer that a worker leaves. */
const LEAVE_MS = 2000;

export interface ShardLinkOptions {
  readonly servers: ParameterServers;
  readonly shard: number;
  readonly worker: number;
  readonly job: ServedJob;
  /** The milliseconds that a server may be unreachable. */
  readonly timeoutMs: number;
}

type ReadAnswer<T> = (parts: readonly Uint8Array[]) => T | Promise<T>;

/** Takes one value for each requested parameter. */
export type TakeValues<T> = (values: readonly Uint8Array[]) => T | Promise<T>;

/** The fields of a push that the caller gives. The link adds the others. */
export type Push = Pick<PushRequest, 'recipe' | 'present' | 'dtype'>;

/** A request with its arrays. */
interface Message {
  readonly request: ServerRequest;
  readonly arrays: readonly Uint8Array[];
}

/** Gradients that the server has received before their push. */
interface SentPart {
  readonly number: number;
  readonly parameters: readonly number[];
}

/** A worker's side of one range of keys. It counts the worker's pushes, and finds the server again after a loss. */
export class ShardLink {
  readonly #options: ShardLinkOptions;
  #connection: RequestConnection | null = null;
  #session = 0;
  #sequence = 0;
  #step = 0;
  #isInitialised = false;
  #partsSent = 0;
  /** The parts of the next push that this connection has sent. */
  #parts: readonly SentPart[] = [];
  /** The pulls that are repeated, one after the other. */
  #repairs: Promise<unknown> = Promise.resolve();
  /** Whether requests go to the server that has the copy. */
  #isAtCopy = false;
  /** Whether the server with the copy must be told to take over, because the other one did not answer. */
  #mustPromote = false;

  constructor(options: ShardLinkOptions) {
    this.#options = options;
  }

  get isInitialised(): boolean {
    return this.#isInitialised;
  }

  async join(): Promise<void> {
    const { shard, worker, job } = this.#options;
    this.#parts = [];
    const request = { kind: 'join', shard, worker, job } as const;
    const joined = await this.#request(() => ({ request, arrays: [] }), readJoined);
    this.#session = joined.session;
    this.#sequence = joined.sequence;
    this.#step = joined.step;
    this.#isInitialised = joined.isInitialised;
  }

  async initialise(values: readonly Uint8Array[]): Promise<void> {
    const request = { kind: 'initialise', ...this.#from() } as const;
    await this.#request(
      () => ({ request, arrays: values }),
      () => undefined,
    );
    this.#isInitialised = true;
  }

  /**
   * Requests the values of some parameters. Several calls may run at once. If the connection is lost, the request is
   * repeated, and `take` is called again. The values are valid until the promise that `take` returns settles.
   */
  async pull<T>(parameters: readonly number[], take: TakeValues<T>): Promise<T> {
    const message = (): Message => this.#pullMessage(parameters);
    const read: ReadAnswer<T> = (parts) => take(readAnswer(parts).values);
    const connection = this.#connection;
    if (connection !== null) {
      try {
        const { request } = message();
        return await connection.request(withHead(request), read);
      } catch (error) {
        const isOver = isLost(error) || isRefused(error, 'no-state', 'not-primary', ...forgotten);
        if (!isOver) throw error;
      }
    }
    const again = this.#repairs.then(() => this.#rejoining(message, read));
    this.#repairs = again.catch(() => undefined);
    return again;
  }

  /**
   * Sends gradients of the next push ahead of it. Settles when they are on their way. The push brings those that do not
   * arrive. The arrays must not change until the push is over.
   */
  async sendPart(
    parameters: readonly number[],
    dtype: PushRequest['dtype'],
    arrays: readonly Uint8Array[],
  ): Promise<void> {
    const connection = this.#connection;
    if (connection === null) return;
    const number = this.#partsSent++;
    const part: SentPart = { number, parameters };
    this.#parts = [...this.#parts, part];
    const request = {
      kind: 'part',
      ...this.#from(),
      number,
      parameters,
      dtype,
    } satisfies AnyRequest;
    const sent = Promise.withResolvers<void>();
    const answered = async (): Promise<void> => {
      try {
        const options = { onSent: () => sent.resolve() };
        await connection.request(withHead(request, arrays), () => undefined, options);
      } catch {
        this.#parts = this.#parts.filter((each) => each !== part);
      } finally {
        sent.resolve();
      }
    };
    void answered();
    await sent.promise;
  }

  /**
   * Settles when the push has been counted and the worker need not wait for others. Then there are values to pull.
   * `arrays` has one for each parameter that is present.
   */
  async push(push: Push, arrays: readonly Uint8Array[]): Promise<ServerAnswer> {
    this.#sequence++;
    const message = (): Message => this.#pushMessage(push, arrays);
    try {
      return await this.#rejoining(message, (parts) => {
        const { values: _, ...answer } = readAnswer(parts);
        // The next pull reads the values of this step.
        this.#step = answer.step;
        return answer;
      });
    } finally {
      this.#parts = [];
    }
  }

  /** Builds the push without the arrays that the server already has. */
  #pushMessage(push: Push, arrays: readonly Uint8Array[]): Message {
    const early = new Set(this.#parts.flatMap(({ parameters }) => parameters));
    const places = push.present.flatMap((isPresent, place) => (isPresent ? place : []));
    return {
      request: {
        kind: 'push',
        ...this.#from(),
        sequence: this.#sequence,
        step: this.#step,
        ...push,
        parts: this.#parts.map(({ number }) => number),
      },
      arrays: arrays.filter((_, index) => !early.has(places[index] ?? -1)),
    };
  }

  #pullMessage(parameters: readonly number[]): Message {
    return { request: { kind: 'pull', ...this.#from(), parameters }, arrays: [] };
  }

  /** Closes the connection without telling the server. */
  drop(): void {
    this.#connection?.close();
    this.#connection = null;
    this.#parts = [];
  }

  /** Tells the server that this worker is done, so that nobody waits for it. */
  async leave(): Promise<void> {
    try {
      const connection = (this.#connection ??= await this.#connect());
      const request = { kind: 'leave', ...this.#from() } satisfies ServerRequest;
      await connection.request(withHead(request), () => undefined, { timeoutMs: LEAVE_MS });
    } catch {
      // A server that cannot be told notices that the connection is closed.
    } finally {
      this.drop();
    }
  }

  /**
   * Repeats a request after joining again, if the server has started again from a snapshot with an earlier state of
   * this worker.
   */
  async #rejoining<T>(message: () => Message, read: ReadAnswer<T>): Promise<T> {
    try {
      return await this.#request(message, read);
    } catch (error) {
      if (!isRefused(error, ...forgotten)) throw error;
      const { kind } = message().request;
      const sequence = this.#sequence;
      await this.join();
      if (!this.#isInitialised) throw emptyError(this.#options.shard, error);
      if (kind !== 'push') return this.#request(message, read);
      // Whether the push had been counted before the server forgot this worker.
      const isCounted = this.#sequence >= sequence;
      if (isCounted) return this.#request(() => this.#pullMessage([]), read);
      this.#sequence++;
      return this.#request(message, read);
    }
  }

  #from(): { readonly shard: number; readonly worker: number; readonly session: number } {
    const { shard, worker } = this.#options;
    return { shard, worker, session: this.#session };
  }

  /**
   * Repeats a request until it is answered. A push that arrives twice counts once. If a server does not answer, the
   * server with the copy takes its place.
   */
  async #request<T>(message: () => Message, read: ReadAnswer<T>): Promise<T> {
    const { shard, timeoutMs } = this.#options;
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      try {
        this.#connection ??= await this.#connect();
        const { request, arrays } = message();
        return await this.#connection.request(withHead(request, arrays), read);
      } catch (error) {
        if (isRefused(error, 'no-part') && this.#parts.length > 0) {
          this.#parts = [];
          continue;
        }
        const isEmpty = isRefused(error, 'no-state');
        if (!isLost(error) && !isEmpty && !isRefused(error, 'not-primary')) throw error;
        const isLast = performance.now() + RETRY_MS > deadline;
        if (isEmpty && (isLast || !this.#isReplicated)) throw emptyError(shard, error);
        if (isLast) throw goneError(shard, timeoutMs, error);
        this.drop();
        this.#mustPromote = isLost(error);
        if (this.#isReplicated) this.#isAtCopy = !this.#isAtCopy;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  get #isReplicated(): boolean {
    const { servers } = this.#options;
    return servers.areReplicated === true && servers.size > 1;
  }

  /** Connects to the server of the range, or to the one that has the copy. */
  async #connect(): Promise<RequestConnection> {
    const { servers, shard } = this.#options;
    const server = this.#isAtCopy ? (shard + 1) % servers.size : shard;
    const connection = await servers.connect(server);
    if (!this.#mustPromote || !this.#isReplicated) return connection;
    try {
      const promote = { kind: 'promote', shard } satisfies AnyRequest;
      await connection.request(withHead(promote), () => undefined);
      this.#mustPromote = false;
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }
}

function isLost(error: unknown): boolean {
  return CollectiveError.isInstance(error) && error.fields['lost'] !== undefined;
}

function goneError(server: number, timeoutMs: number, cause: unknown): CollectiveError {
  return new CollectiveError(
    {
      asked: `A request to parameter server ${server}`,
      found: `it could not be reached for ${timeoutMs} ms, and no replica has taken its place`,
      todo: 'Start it again from its snapshot, or run with replicas',
    },
    { server, timeoutMs },
    { cause },
  );
}

function emptyError(server: number, cause: unknown): CollectiveError {
  return new CollectiveError(
    {
      asked: `A step with parameter server ${server}`,
      found:
        'the server was lost, and the one in its place has neither a replica nor a snapshot of its parameters',
      todo: 'Run with replicas or snapshots; start this run again from its last checkpoint',
    },
    { server },
    { cause },
  );
}
