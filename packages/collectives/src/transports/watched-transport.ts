import type { Transport } from '@shardwise/core/spec';

/** A transport that says when it ends, also to a program that awaits no message. */
export interface WatchedTransport extends Transport {
  /** Rejects with the cause when the transport fails or is closed. */
  readonly ended: Promise<never>;
}
