import {
  type AbortCause,
  abortedByError,
  type CallOptions,
  type CollectiveError,
  peerLostError,
} from '@shardwise/core/spec';
import { limitMessage } from '../transports/limit-message.ts';
import { PortInbox } from './port-inbox.ts';
import { costOf, hasRoom, parsePortMessage, type PortMessage } from './port-message.ts';
import { PortOutbox } from './port-outbox.ts';

export interface PortLinkOptions {
  readonly rank: number;
  readonly peer: number;
  readonly port: MessagePort;
  readonly maxUnexpectedBytes: number;
  /** Ends the transport with this error. */
  readonly fail: (error: CollectiveError) => void;
}

/** This rank's end of the port that it shares with a peer. */
export class PortLink {
  readonly #options: PortLinkOptions;
  readonly #inbox: PortInbox;
  readonly #outbox: PortOutbox;
  /** The cost of messages that have been received here, and of which the peer has not been told. */
  #takenCost = 0;
  /** The error with which sends reject, once this rank or the peer has left or failed. */
  #ended: CollectiveError | undefined;

  constructor(options: PortLinkOptions) {
    const { rank, peer, port, maxUnexpectedBytes } = options;
    this.#options = options;
    this.#inbox = new PortInbox({ rank, peer, onTaken: (cost) => this.#take(cost) });
    this.#outbox = new PortOutbox(port, maxUnexpectedBytes);
    port.addEventListener('message', ({ data }) => this.#read(parsePortMessage(data)));
    port.addEventListener('messageerror', () => this.#read(undefined));
    // Node and some browsers tell that a port was closed.
    port.addEventListener('close', () => this.#lose('its port was closed: its worker has ended'));
    port.start();
  }

  async send(tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    if (this.#ended !== undefined) throw this.#ended;
    const { done, giveUp } = this.#outbox.send(tag, bytes);
    if (options === undefined) return done;
    const { rank, peer } = this.#options;
    const { byteLength } = bytes;
    return limitMessage(done, { operation: 'send', rank, peer, tag, byteLength }, options, giveUp);
  }

  recv(tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    return this.#inbox.receive(tag, bytes, options);
  }

  /** Ends this rank's part of the link. What it has sent before still arrives. */
  leave(error: CollectiveError): void {
    this.#end(error, { kind: 'goodbye' });
    this.#inbox.fail(error);
  }

  /** Ends all calls with `error`, and tells the peer the cause. */
  fail(error: CollectiveError, cause: AbortCause): void {
    this.#end(error, { kind: 'abort', ...cause });
    this.#inbox.fail(error);
  }

  #end(error: CollectiveError, message: PortMessage): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#outbox.end(error);
    this.#post(message);
    this.#options.port.close();
  }

  #read(message: PortMessage | undefined): void {
    if (this.#ended !== undefined) return;
    const { peer, fail, maxUnexpectedBytes } = this.#options;
    switch (message?.kind) {
      case undefined:
        this.#lose('it sent what is no message of a transport');
        break;
      case 'message': {
        const { tag, bytes } = message;
        const { waitingCost } = this.#inbox;
        if (hasRoom(waitingCost, costOf(bytes.byteLength), maxUnexpectedBytes)) {
          this.#inbox.deliver(tag, new Uint8Array(bytes));
        } else this.#lose(`it sent more than the ${maxUnexpectedBytes} bytes that may wait`);
        break;
      }
      case 'taken':
        if (!this.#outbox.taken(message.cost)) this.#lose('it received what was never sent');
        break;
      case 'goodbye': {
        const error = abortedByError({ rank: peer, reason: 'it closed the group' });
        this.#end(error, { kind: 'goodbye' });
        this.#inbox.end(error);
        break;
      }
      case 'abort': {
        fail(abortedByError(message));
        break;
      }
      default:
        message satisfies undefined;
    }
  }

  #lose(reason: string): void {
    if (this.#ended !== undefined) return;
    this.#options.fail(peerLostError(this.#options.peer, reason));
  }

  /**
   * Tells the peer from time to time what has been received, and always before the peer would have to wait for
   * it.
   */
  #take(cost: number): void {
    this.#takenCost += cost;
    if (this.#ended !== undefined || this.#takenCost < this.#options.maxUnexpectedBytes / 4) return;
    this.#post({ kind: 'taken', cost: this.#takenCost });
    this.#takenCost = 0;
  }

  #post(message: PortMessage): void {
    this.#options.port.postMessage(message);
  }
}
