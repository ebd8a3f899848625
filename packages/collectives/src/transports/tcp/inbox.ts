import { type CallOptions, type CollectiveError, messageLengthError } from '@shardwise/core/spec';
import { limitMessage } from '../limit-message.ts';
import { Mailboxes, type Receiver } from '../mailboxes.ts';
import { type MessageLabel } from '../message-errors.ts';
import type { Wakefulness } from './wakefulness.ts';

/** The cost of a message that nobody awaits yet, in addition to its bytes. */
const MESSAGE_BYTES = 64;

/** Where the body of a message goes. */
export interface Sink {
  /** The memory for the body. Undefined if nobody can take the body, which is then skipped. */
  readonly bytes: Uint8Array | undefined;
  /** Called when all bytes are there. */
  readonly done: () => void;
}

export interface InboxOptions {
  readonly rank: number;
  readonly peer: number;
  /** The length in bytes of messages that may be kept here and that nobody awaits. */
  readonly maxUnexpectedBytes: number;
  readonly wakefulness: Wakefulness;
  /** Ends the transport, because a receiver has given up while its memory is being written. */
  readonly interrupt: (error: CollectiveError) => void;
}

/** Takes what one peer sends to this rank, and gives each message to the receiver of its tag, in order. */
export class Inbox {
  /** Called when a message that was not accepted may be tried again. */
  onRoom: () => void = () => {};
  readonly #options: InboxOptions;
  readonly #mailboxes = new Mailboxes();
  #unexpectedBytes = 0;
  /** The receiver whose memory is being filled. */
  #filling: Receiver | undefined;
  #ended: Error | undefined;

  constructor(options: InboxOptions) {
    this.#options = options;
  }

  /** Fills `bytes` with the next message of the tag. */
  receive(tag: number, bytes: Uint8Array, options?: CallOptions): Promise<void> {
    const { rank, peer } = this.#options;
    const label: MessageLabel = {
      operation: 'recv',
      rank,
      peer,
      tag,
      byteLength: bytes.byteLength,
    };
    const message = this.#mailboxes.takeMessage(tag);
    if (message !== undefined) {
      this.#unexpectedBytes -= message.byteLength + MESSAGE_BYTES;
      this.onRoom();
      if (message.byteLength !== bytes.byteLength) {
        return Promise.reject(messageLengthError(label, message.byteLength));
      }
      bytes.set(message);
      return Promise.resolve();
    }
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const receiver: Receiver = { label, bytes, resolve, reject };
    this.#mailboxes.addReceiver(tag, receiver);
    this.onRoom();
    this.#options.wakefulness.wait();
    if (options === undefined) return promise;
    return limitMessage(promise, label, options, (error) => this.#giveUp(tag, receiver, error));
  }

  /** Where the body of a message goes that begins to arrive. Undefined if nobody awaits the message. */
  open(tag: number, length: number): Sink | undefined {
    const receiver = this.#mailboxes.takeReceiver(tag);
    if (receiver === undefined) return undefined;
    if (receiver.bytes.byteLength !== length) {
      receiver.reject(messageLengthError(receiver.label, length));
      return { bytes: undefined, done: () => {} };
    }
    this.#filling = receiver;
    const done = (): void => {
      this.#filling = undefined;
      receiver.resolve();
    };
    return { bytes: receiver.bytes, done };
  }

  /** Where to keep the body of a message that nobody awaits. Undefined if there is no room for it. */
  openUnexpected(tag: number, length: number): Sink | undefined {
    const cost = length + MESSAGE_BYTES;
    if (this.#unexpectedBytes + cost > this.#options.maxUnexpectedBytes) return undefined;
    const bytes = new Uint8Array(length);
    this.#unexpectedBytes += cost;
    return { bytes, done: () => this.#keep(tag, bytes) };
  }

  /** Notes that no more messages will come. Those that are here can still be received. */
  end(error: Error): void {
    this.#ended ??= error;
    this.#filling?.reject(error);
    this.#filling = undefined;
    this.#mailboxes.rejectReceivers(error);
  }

  /** Does what `end` does, and drops the messages that are here. */
  fail(error: Error): void {
    this.end(error);
    this.#mailboxes.dropMessages();
    this.#unexpectedBytes = 0;
  }

  #keep(tag: number, bytes: Uint8Array): void {
    if (this.#ended !== undefined) return;
    const sink = this.open(tag, bytes.byteLength);
    if (sink === undefined) {
      this.#mailboxes.addMessage(tag, bytes);
      return;
    }
    this.#unexpectedBytes -= bytes.byteLength + MESSAGE_BYTES;
    sink.bytes?.set(bytes);
    sink.done();
  }

  #giveUp(tag: number, receiver: Receiver, error: CollectiveError): void {
    const waited = this.#mailboxes.removeReceiver(tag, receiver);
    if (!waited && this.#filling === receiver) this.#options.interrupt(error);
    receiver.reject(error);
  }
}
