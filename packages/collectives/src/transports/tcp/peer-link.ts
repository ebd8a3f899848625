import type { Socket } from 'node:net';
import {
  abortedByError,
  type CallOptions,
  type CollectiveError,
  peerLostError,
  reasonText,
} from '@shardwise/core/spec';
import { encodeFrame } from '../../wire/frame-header.ts';
import { FrameParser } from '../../wire/frame-parser.ts';
import { protocolError } from '../../wire/wire-error.ts';
import { Inbox } from './inbox.ts';
import { limitMessage } from '../limit-message.ts';
import { controlLimits, encodeCause, messageKinds } from './message-frame.ts';
import { MessageReader } from './message-reader.ts';
import { Outbox } from './outbox.ts';
import type { Wakefulness } from './wakefulness.ts';

/**
 * Milliseconds to wait for the reason after a connection of a peer has broken. The peer's other connection, or
 * another peer, may still bring it.
 */
const VERDICT_MS = 100;
/** Milliseconds for which peers can read why this rank has ended. */
const FAREWELL_MS = 1000;

export interface LinkOptions {
  readonly rank: number;
  readonly peer: number;
  readonly maxUnexpectedBytes: number;
  readonly wakefulness: Wakefulness;
  /** Ends the transport with this error. */
  readonly fail: (error: CollectiveError) => void;
}

/**
 * This rank's ends of the two connections with a peer. Messages are sent by the side that was connected to,
 * because only the side that connects can have its bytes read into memory of its choice:
 *
 *   incoming: peer ── messages ──► this rank, which has connected; control ◄──
 *   outgoing: this rank ── messages ──► peer, which has connected; control ◄──
 */
export class PeerLink {
  readonly peer: number;
  readonly inbox: Inbox;
  readonly reader: MessageReader;
  readonly #options: LinkOptions;
  readonly #control = new FrameParser(controlLimits);
  #incoming: Socket | undefined;
  #outgoing: Socket | undefined;
  #outbox: Outbox | undefined;
  /** The error with which sends reject, once this rank or the peer has left or failed. */
  #ended: CollectiveError | undefined;
  /** Whether the connections may close without being missed. */
  #isOver = false;
  #verdict: NodeJS.Timeout | undefined;

  constructor(options: LinkOptions) {
    const { rank, peer, maxUnexpectedBytes, wakefulness, fail } = options;
    this.peer = peer;
    this.#options = options;
    this.inbox = new Inbox({ rank, peer, maxUnexpectedBytes, wakefulness, interrupt: fail });
    this.reader = new MessageReader(this.inbox, wakefulness, {
      onGoodbye: () => this.#lastMessage(),
      onAbort: (cause, reason) => this.#abort(cause, reason),
    });
  }

  get isWhole(): boolean {
    return this.#incoming !== undefined && this.#outgoing !== undefined;
  }

  /** Whether the peer has said goodbye, or the link has ended. */
  get isOver(): boolean {
    return this.#isOver;
  }

  attachIncoming(socket: Socket): void {
    this.#incoming = socket;
    this.reader.onResume = () => void socket.resume();
    this.#watch(socket);
    // The socket is being read already. This makes it notice the end of the stream.
    socket.resume();
  }

  get hasOutgoing(): boolean {
    return this.#outgoing !== undefined;
  }

  attachOutgoing(socket: Socket, rest: Uint8Array): void {
    this.#outgoing = socket;
    this.#outbox = new Outbox(socket);
    this.#watch(socket);
    socket.on('data', (bytes: Uint8Array) => this.#readControl(socket, bytes));
    if (rest.byteLength > 0) this.#readControl(socket, rest);
  }

  send(tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    if (this.#outbox === undefined) throw new TypeError('The link has not been made');
    const written = this.#outbox.send(tag, bytes).catch((error: unknown) => {
      throw this.#ended ?? this.#lost(reasonText(error));
    });
    if (options === undefined) return written;
    const { rank, fail } = this.#options;
    const { byteLength } = bytes;
    const label = { operation: 'send', rank, peer: this.peer, tag, byteLength } as const;
    // The bytes belong to the system until they are written or the connection is gone.
    return limitMessage(written, label, options, fail);
  }

  /** Ends this rank's part of the link. What it has sent before still arrives. */
  leave(error: CollectiveError): void {
    this.#end(error);
    for (const socket of this.#sockets()) {
      socket.end(encodeFrame(messageKinds.goodbye, 0), () => socket.unref());
    }
  }

  /** Ends all calls with `error`, and tells the peer that `rank` is the cause. */
  fail(error: CollectiveError, cause: { readonly rank: number; readonly reason: string }): void {
    this.#end(error);
    const frame = encodeFrame(messageKinds.abort, cause.rank, encodeCause(cause.reason));
    // The reason goes over both connections: one may be full of messages, and the other may break while the
    // peer writes to it.
    for (const socket of this.#sockets()) {
      socket.end(frame);
      destroyLater(socket);
    }
  }

  #end(error: CollectiveError): void {
    clearTimeout(this.#verdict);
    this.#ended ??= error;
    this.#isOver = true;
    this.inbox.fail(error);
    if (this.reader.discard() || this.#incoming === undefined) return;
    // The next bytes would be written to memory that belongs to its owner again.
    this.#incoming.pause();
    destroyLater(this.#incoming);
  }

  #sockets(): readonly Socket[] {
    return [this.#incoming, this.#outgoing].filter((socket) => socket !== undefined);
  }

  #readControl(socket: Socket, bytes: Uint8Array): void {
    try {
      for (const { kind, tag, body } of this.#control.push(bytes)) {
        if (kind === messageKinds.goodbye) this.#leave();
        else this.#abort(tag, body);
      }
    } catch (error) {
      socket.destroy(error instanceof Error ? error : protocolError(String(error)));
    }
  }

  #abort(rank: number, reason: Uint8Array): void {
    if (this.#isOver) return;
    this.#options.fail(abortedByError({ rank, reason: new TextDecoder().decode(reason) }));
  }

  /** Notes that the peer receives nothing any more. What it has sent may still be on its way. */
  #leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ended ??= abortedByError({ rank: this.peer, reason: 'it closed the group' });
  }

  #lastMessage(): void {
    this.#leave();
    if (this.#ended !== undefined) this.inbox.end(this.#ended);
  }

  #watch(socket: Socket): void {
    let reason =
      'its connection was closed: its process or its host has ended, or something between has cut it';
    socket.on('error', (error) => {
      reason = `its connection broke (${error.message})`;
    });
    socket.on('close', () => {
      if (socket === this.#incoming && this.#ended !== undefined) this.inbox.end(this.#ended);
      if (this.#isOver) return;
      this.#verdict ??= setTimeout(() => {
        if (!this.#isOver) this.#options.fail(this.#lost(reason));
      }, VERDICT_MS);
    });
  }

  #lost(reason: string): CollectiveError {
    return peerLostError(this.peer, reason);
  }
}

function destroyLater(socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), FAREWELL_MS).unref();
  socket.once('close', () => clearTimeout(timer)).unref();
}
