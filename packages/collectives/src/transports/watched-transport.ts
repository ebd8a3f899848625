import type { Transport } from '@shardwise/core/spec';

/** A transport that reports its end, even to a program that awaits no message. */
export interface WatchedTransport extends Transport {
  /** Rejects with the cause when the transport fails or is closed. */
  readonly ended: Promise<never>;
}
