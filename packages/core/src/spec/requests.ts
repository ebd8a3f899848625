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
