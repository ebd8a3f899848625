import type { CallOptions } from './process-group.ts';

/** Options of a request. */
export interface RequestOptions extends CallOptions {
  /** Called when this side has sent the whole request. The other side may not have it yet. */
  readonly onSent?: () => void;
}

/**
 * A connection to a process that answers requests. Messages are lists of byte strings, which begin at addresses that
 * are multiples of 8. A request belongs to the call until its promise settles.
 */
export interface RequestConnection {
  /** The address of the other side, for error messages. */
  readonly address: string;
  /**
   * Sends a request, passes the answer to `read`, and returns its result. The answer may lie in memory that is
   * used again: its bytes are valid until the result of `read` settles. Rejects with RefusedError if the other
   * side refuses the request, with CollectiveTimeoutError after the time limit, and, if the connection ends
   * before the answer is there, with a CollectiveError whose field `lost` is the address.
   */
  request<T>(
    parts: readonly Uint8Array[],
    read: (answer: readonly Uint8Array[]) => T | Promise<T>,
    options?: RequestOptions,
  ): Promise<T>;
  /** Ends the connection. Pending and later requests reject. */
  close(): void;
}

/** The client of a connection, as the answering side sees it. */
export interface RequestClient {
  /** Connections are numbered from 0. */
  readonly number: number;
  /** Aborted when the connection ends. */
  readonly closed: AbortSignal;
}

/**
 * Answers requests. The requests of one connection may be answered in any order. The bytes of a request are valid
 * until its answer is there. An answer is sent before its bytes may change. If a handler throws an error, the call
 * on the other side rejects with it.
 */
export type RequestHandler = (
  parts: readonly Uint8Array[],
  client: RequestClient,
) => Promise<readonly Uint8Array[]>;

/**
 * What a worker has seen of a step on parameter servers. With several servers, each number is the largest of theirs,
 * and `isLate` is true if it is true for one of them.
 */
export interface ServerStep {
  /** The number of steps by which the worker is ahead of the slowest worker. */
  readonly lead: number;
  /** The number of updates of other workers after the worker read the values and before its gradient arrived. */
  readonly staleness: number;
  /** The milliseconds that the worker waited for other workers. */
  readonly waitedMs: number;
  /** Whether the worker's gradient came too late for the step and was dropped. */
  readonly isLate: boolean;
}

/** The parameter servers of a run, as workers reach them. */
export interface ParameterServers {
  /** The number of servers. */
  readonly size: number;
  /** Whether each server has a copy of the previous server's data. Default: false. */
  readonly areReplicated?: boolean;
  /** Makes a new connection to a server. Rejects with CollectiveError if it cannot be reached. */
  connect(server: number): Promise<RequestConnection>;
  /**
   * Registers a function by which a worker tells the servers that it leaves, when it closes its part of the
   * run.
   */
  whenClosed(leave: () => Promise<void>): void;
  /** Called after each step of this worker. */
  onStep?: (step: ServerStep) => void;
}
