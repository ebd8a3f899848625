import type { Socket } from 'node:net';
import {
  abortCauseOf,
  type CallOptions,
  type CollectiveError,
  peerClosedError,
  peerLostError,
} from '@shardwise/core/spec';
import type { Hello } from '../../wire/hello.ts';
import type { WatchedTransport } from '../watched-transport.ts';
import { HeartbeatMonitor, type HeartbeatTimes } from './heartbeat-monitor.ts';
import { peerRangeError } from '../message-errors.ts';
import { PeerLink } from './peer-link.ts';
import { Wakefulness } from './wakefulness.ts';

export interface TcpEndOptions {
  readonly rank: number;
  readonly size: number;
  readonly peers: readonly number[];
  /** Null: none are sent. */
  readonly heartbeat: HeartbeatTimes | null;
  readonly maxUnexpectedBytes: number;
}

/** One rank's end of all its links. A failure of one link ends all of them. */
export class TcpEnd implements WatchedTransport {
  readonly specificationVersion = 1;
  readonly rank: number;
  readonly size: number;
  /** The other ranks with which this one has connections. */
  readonly peers: readonly number[];
  readonly ended: Promise<never>;
  readonly #links: ReadonlyMap<number, PeerLink>;
  readonly #monitor: HeartbeatMonitor | null;
  readonly #end: (error: Error) => void;
  readonly #atEnd: (() => void)[] = [];
  #isOver = false;

  constructor({ rank, size, peers, heartbeat, maxUnexpectedBytes }: TcpEndOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    this.rank = rank;
    this.size = size;
    this.peers = peers;
    this.ended = promise;
    // Pending calls report the failure. Code that waits for the ranks to join awaits this promise, but nobody else
    // need.
    promise.catch(() => {});
    this.#end = reject;
    const fail = (error: CollectiveError): void => this.#fail(error);
    const shared = { rank, maxUnexpectedBytes, wakefulness: new Wakefulness(), fail };
    this.#links = new Map(this.peers.map((peer) => [peer, new PeerLink({ ...shared, peer })]));
    this.#monitor =
      heartbeat &&
      new HeartbeatMonitor(heartbeat, (peer, silentMs) =>
        this.#hearNothing(peer, silentMs, heartbeat.limitMs),
      );
  }

  /** The ranks with which not all connections have been made. */
  missing(): readonly number[] {
    return this.peers.filter(
      (peer) => !this.link(peer).isWhole || this.#monitor?.has(peer) === false,
    );
  }

  /** Why a connection to this rank is one too many. Undefined if it is not. */
  refusal({ purpose, from }: Hello): string | undefined {
    if (this.#isOver) return `rank ${this.rank} has ended`;
    if (purpose === 'heartbeat' && this.#monitor === null) {
      return `rank ${this.rank} was told to use no heartbeats`;
    }
    const isKnown =
      purpose === 'heartbeat' ? this.#monitor?.has(from) === true : this.link(from).hasOutgoing;
    return isKnown ? `rank ${from} is connected to rank ${this.rank} already` : undefined;
  }

  accept({ purpose, from }: Hello, socket: Socket, rest: Uint8Array): void {
    if (purpose === 'heartbeat') this.#monitor?.attach(from, socket);
    else this.link(from).attachOutgoing(socket, rest);
  }

  /** Notes that all peers are there, so that their silence counts from now on. */
  start(): void {
    this.#monitor?.start();
  }

  /** Calls `callback` when the transport ends, or now if it has ended. */
  onEnd(callback: () => void): void {
    if (this.#isOver) callback();
    else this.#atEnd.push(callback);
  }

  link(peer: number): PeerLink {
    const link = this.#links.get(peer);
    if (link === undefined) throw peerRangeError(this.rank, peer, this.peers);
    return link;
  }

  send(to: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const link = this.#links.get(to);
    if (link !== undefined) return link.send(tag, bytes, options);
    return Promise.reject(peerRangeError(this.rank, to, this.peers));
  }

  recv(from: number, tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const link = this.#links.get(from);
    if (link !== undefined) return link.inbox.receive(tag, bytes, options);
    return Promise.reject(peerRangeError(this.rank, from, this.peers));
  }

  /**
   * With a reason, the calls of the peers fail as well. Without one, peers can still receive what was sent
   * before.
   */
  close(reason?: Error): void {
    const error = peerClosedError(this.rank, reason);
    if (reason !== undefined) this.#fail(error);
    else if (this.#finish(error)) for (const link of this.#links.values()) link.leave(error);
  }

  #fail(error: CollectiveError): void {
    const { rank = this.rank, reason } = abortCauseOf(error, this.rank);
    if (!this.#finish(error)) return;
    for (const link of this.#links.values()) link.fail(error, { rank, reason });
  }

  /** Ends the transport once. Returns false if it had ended before. */
  #finish(error: CollectiveError): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#end(error);
    this.#monitor?.stop();
    for (const callback of this.#atEnd.splice(0)) callback();
    return true;
  }

  #hearNothing(peer: number, silentMs: number, limitMs: number): void {
    if (this.link(peer).isOver) {
      this.#monitor?.forget(peer);
      return;
    }
    const reason =
      `no heartbeat for ${Math.round(silentMs)} ms, the limit is ${limitMs} ms: ` +
      'its process is stopped, or the link to its host is cut';
    this.#fail(peerLostError(peer, reason));
  }
}
