import type { CallOptions } from './process-group.ts';

/**
 * The small way to bring a network: messages between pairs of ranks, those of one tag in order. `createGroup`
 * of @shardwise/collectives makes a ProcessGroup of it, and keeps the time: it passes no options, and when a
 * call's time is over or its signal is given, it closes the transport with that error, on which this
 * rank's pending calls and those of its peers must reject. A transport that is used without a group may
 * look at `options`, or leave them. What it must notice by itself is a peer that is lost: calls that
 * wait for it reject.
 *
 * Its errors are of these kinds, so that a group can tell who is the cause:
 * - a peer that is lost: `new CollectiveError({ asked, found, todo }, { rank })` with the rank of that peer,
 *   or as of one that has closed it;
 * - a peer that has closed it: a CollectiveAbortedError whose fields are `abortedBy`, the rank of that peer, and
 *   `reason`, a text; where its reason is such an error itself, they are those of the reason.
 *   `peerClosedError(rank, reason)` of @shardwise/collectives makes it, also without reason;
 * - a message of another length than its receiver expects: CollectiveMismatchError.
 *
 * It need not tell the group of messages that it loses, but a group can do no more than fail at its time limit
 * where data of its calls is lost, and does not notice lost messages of `send`.
 */
export interface Transport {
  readonly rank: number;
  readonly size: number;
  /** Settles when `bytes` may be used again. This may be before they have arrived. */
  send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void>;
  /** Fills `bytes`. Rejects with CollectiveMismatchError if the message has another length. */
  recv(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void>;
  /**
   * Ends this rank's part. With a reason, every pending and later call fails, here and on the peers, with an
   * error that contains the text of the reason. Without one, this rank leaves: calls of the peers that wait for
   * it fail, their other calls continue, and peers can still receive what it has sent before. A second call
   * does nothing.
   */
  close(reason?: Error): void;
}
