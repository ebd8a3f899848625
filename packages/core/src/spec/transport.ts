import type { CallOptions } from './process-group.ts';
import type { Store } from './store.ts';

/**
 * The smallest interface by which you can add a network: messages between pairs of ranks. Messages with the same tag
 * arrive in order. `createGroup` of `@shardwise/collectives` makes a ProcessGroup of a transport. The group watches the
 * time limits and signals of its calls itself, and passes no options. When a time limit is over or a signal is
 * aborted, the group closes the transport with that error. The pending calls of this rank and of its peers must then
 * reject. A transport that is used without a group may follow `options` or ignore them. The transport itself must
 * notice when a peer is lost, and must then reject the calls that wait for this peer.
 *
 * A group can tell which rank is the cause by the errors that these functions make:
 * - `peerLostError(rank, reason)`: a peer is gone.
 * - `peerClosedError(rank, reason)`: a peer has closed the transport. The reason is the one that the peer passed to
 *   `close`, or undefined. If the reason goes to the peers as a message, send `abortCauseOf(reason, rank)`, of which
 *   `abortedByError(cause)` makes the error there.
 * - `messageLengthError(expected, foundBytes)`: a message has another length than its receiver expects.
 *
 * The transport need not tell the group about messages that it loses. If data of a call is lost, the group can only
 * fail at its time limit. It does not notice lost messages of `send`.
 */
export interface Transport {
  /** The version of this interface that the object implements (docs/decisions/0030-versions-of-interfaces.md). */
  readonly specificationVersion: 1;
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

/** What a launcher gives to a TransportFactory. */
export interface TransportFactoryContext {
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
  /** For each rank, the number of its host. */
  readonly hosts: readonly number[];
  /** An address of this host at which the other ranks can reach it. It is 127.0.0.1 if there is one host. */
  readonly host: string;
  /**
   * The ranks find each other here. Its keys are those of this factory and of this start of the ranks alone. It is
   * closed when the factory has settled.
   */
  readonly store: Store;
  /** The secret of the run, by which ranks can tell each other from strangers. */
  readonly secret: string;
  /** How many milliseconds the factory may take. */
  readonly timeoutMs: number;
}

/**
 * Connects one rank with all the others, and returns its transport. Each rank calls it once in each start of the run.
 * The default export of the module that `shardwise run --transport` names is one.
 */
export type TransportFactory = (options: TransportFactoryContext) => Transport | Promise<Transport>;
