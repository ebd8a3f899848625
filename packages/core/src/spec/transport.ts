import type { CallOptions } from './process-group.ts';

/**
 * The smallest interface by which you can add a network: messages between pairs of ranks. Messages with the same tag
 * arrive in order. `createGroup` of @shardwise/collectives makes a ProcessGroup of a transport. The group watches the
 * time limits and signals of its calls itself, and passes no options. When a time limit is over or a signal is
 * aborted, the group closes the transport with that error. The pending calls of this rank and of its peers must then
 * reject. A transport that is used without a group may follow `options` or ignore them. The transport itself must
 * notice when a peer is lost, and must then reject the calls that wait for this peer.
 *
 * The errors are of these kinds, so that a group can tell which rank is the cause:
 * - A peer is lost: `new CollectiveError({ asked, found, todo }, { rank })` with the rank of that peer, or the error
 *   for a peer that has closed the transport.
 * - A peer has closed the transport: a CollectiveAbortedError with the fields `abortedBy`, the rank of that peer, and
 *   `reason`, a text. If the peer's reason is itself an error of this kind, the fields are copied from that reason.
 *   `peerClosedError(rank, reason)` of @shardwise/collectives makes this error. The reason may be left out.
 * - A message has another length than its receiver expects: CollectiveMismatchError.
 *
 * The transport need not tell the group about messages that it loses. If data of a call is lost, the group can only
 * fail at its time limit. It does not notice lost messages of `send`.
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
