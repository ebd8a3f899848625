import {
  CollectiveError,
  type ParameterServers,
  type RequestConnection,
} from '@shardwise/core/extend';
import { isRefused } from './refusal.ts';
import { readAnswer, readJoined, type ServerAnswer, withHead } from './server-message.ts';
import type { ServedJob } from './served-job.ts';
import type { AnyRequest, PushRequest, ServerRequest } from './server-request.ts';

/** How long to wait before a server that did not answer is tried again. */
const RETRY_MS = 50;
/** What a server refuses that has begun again from a snapshot. */
const forgotten = ['unknown-worker', 'gap'] as const;
/** How long a server may take to hear that a worker leaves. */
const LEAVE_MS = 2000;

export interface ShardLinkOptions {
  readonly servers: ParameterServers;
  readonly shard: number;
  readonly worker: number;
  readonly job: ServedJob;
  /** How long a server may be away. */
  readonly timeoutMs: number;
}

type ReadAnswer<T> = (parts: readonly Uint8Array[]) => T | Promise<T>;

/** Takes one value for each parameter that was asked for. */
export type TakeValues<T> = (values: readonly Uint8Array[]) => T | Promise<T>;

/** What a push carries, beside what the link adds. */
export type Push = Pick<PushRequest, 'recipe' | 'present' | 'dtype'>;

/** A request, and its arrays. */
interface Message {
  readonly request: ServerRequest;
  readonly arrays: readonly Uint8Array[];
}

/** Gradients that are with the server before their push. */
interface SentPart {
  readonly number: number;
  readonly parameters: readonly number[];
}

/** A worker's side of one range of keys: keeps its place in the row of pushes, and finds the server again. */
export class ShardLink {
  readonly #options: ShardLinkOptions;
  #connection: RequestConnection | null = null;
  #session = 0;
  #sequence = 0;
  #round = 0;
  #isInitialised = false;
  #partsSent = 0;
  /** What this connection has brought of the next push. */
  #parts: readonly SentPart[] = [];
  /** Pulls that are asked for again, one after the other. */
  #repairs: Promise<unknown> = Promise.resolve();
  /** Whether the server that has the copy answers. */
  #isAtCopy = false;
  /** Whether the other server did not answer. */
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
    this.#round = joined.round;
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
   * Asks for the values of some parameters. Several calls may be under way at once; what this connection does not bring is asked for
   * again, and given to `take` again. The values are valid until what `take` returns settles.
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
   * Sends gradients of the push that is to come; settles when they are on their way. What does not arrive, the push brings. The arrays
   * stay as they are until it is over.
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
   * Settles when the push has been counted, and nobody is to be waited for; then there are values to pull. `arrays` has one for each
   * parameter that is present.
   */
  async push(push: Push, arrays: readonly Uint8Array[]): Promise<ServerAnswer> {
    this.#sequence++;
    const message = (): Message => this.#pushMessage(push, arrays);
    try {
      return await this.#rejoining(message, (parts) => {
        const { values: _, ...answer } = readAnswer(parts);
        // The values of the next pull are of this step.
        this.#round = answer.round;
        return answer;
      });
    } finally {
      this.#parts = [];
    }
  }

  /** Without the arrays that the server has already. */
  #pushMessage(push: Push, arrays: readonly Uint8Array[]): Message {
    const early = new Set(this.#parts.flatMap(({ parameters }) => parameters));
    const places = push.present.flatMap((isPresent, place) => (isPresent ? place : []));
    return {
      request: {
        kind: 'push',
        ...this.#from(),
        sequence: this.#sequence,
        round: this.#round,
        ...push,
        parts: this.#parts.map(({ number }) => number),
      },
      arrays: arrays.filter((_, index) => !early.has(places[index] ?? -1)),
    };
  }

  #pullMessage(parameters: readonly number[]): Message {
    return { request: { kind: 'pull', ...this.#from(), parameters }, arrays: [] };
  }

  /** Ends the connection without a word. */
  drop(): void {
    this.#connection?.close();
    this.#connection = null;
    this.#parts = [];
  }

  /** Says that this worker is done, so that nobody waits for it. */
  async leave(): Promise<void> {
    try {
      const connection = (this.#connection ??= await this.#connect());
      const request = { kind: 'leave', ...this.#from() } satisfies ServerRequest;
      await connection.request(withHead(request), () => undefined, { timeoutMs: LEAVE_MS });
    } catch {
      // A server that does not hear it notices that the connection is gone.
    } finally {
      this.drop();
    }
  }

  /** A server that has begun again from a snapshot knows an earlier state of this worker. */
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
      // It was counted before the server forgot this worker.
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
   * Sends a request again until it is answered: a push that comes twice counts once. Where a server does not answer,
   * the one that has the copy is to take its place.
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

  /** A connection to the server of the range, or to the one that has the copy. */
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
