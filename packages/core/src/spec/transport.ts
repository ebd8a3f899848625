import type { CallOptions } from './process-group.ts';

/**
 * The small way to bring a network: ordered messages between pairs of ranks. `createGroup` of
 * @shardwise/collectives makes a ProcessGroup of it.
 */
export interface Transport {
  readonly rank: number;
  readonly size: number;
  /** Settles when `bytes` may be reused. */
  send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void>;
  /** Fills `bytes`; rejects where the message that arrives has another length. */
  recv(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void>;
  /** Ends every pending call, here and on the peers, with `reason`. */
  close(reason?: Error): void;
}
