import type { CallOptions } from './process-group.ts';

/** Options of a request. */
export interface RequestOptions extends CallOptions {
  /** Called when this side has handed over the whole request, which the other one may not have yet. */
  readonly onSent?: () => void;
}

/**
 * A connection to a process that answers requests. Messages are lists of byte strings, which begin at addresses that
 * are multiples of 8. A request belongs to the call until its promise settles.
 */
export interface RequestConnection {
  /** Where it leads, for messages of errors. */
  readonly address: string;
  /**
   * Sends a request, and gives the answer to `read`, whose result it returns. The answer may lie in memory that is used
   * again: its bytes are valid until what `read` returns settles. Rejects with RefusedError where the other side refuses
   * it, with CollectiveTimeoutError when the time is over, and with CollectiveError whose field `lost` is the address
   * where the connection ends before the answer is there.
   */
  request<T>(
    parts: readonly Uint8Array[],
    read: (answer: readonly Uint8Array[]) => T | Promise<T>,
    options?: RequestOptions,
  ): Promise<T>;
  /** Ends it: pending and later requests reject. */
  close(): void;
}

/** The side of a connection that answers. */
export interface RequestClient {
  /** Connections are counted from 0. */
  readonly number: number;
  /** Aborted when the connection ends. */
  readonly closed: AbortSignal;
}

/**
 * Answers requests; those of one connection in any order. The bytes of a request are valid until its answer is there, and
 * an answer is sent before it may change. What a handler throws, the other side's call rejects with.
 */
export type RequestHandler = (
  parts: readonly Uint8Array[],
  client: RequestClient,
) => Promise<readonly Uint8Array[]>;

/** What a worker has seen of a step on parameter servers; of several servers, the most. */
export interface ServerStep {
  /** How many steps it is ahead of the slowest worker. */
  readonly lead: number;
  /** How many updates of others came between what it had read and its gradient. */
  readonly staleness: number;
  /** How long it waited for other workers. */
  readonly waitedMs: number;
  /** Whether its gradient came too late for the step, and was dropped. */
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
