import type { CallOptions } from '@shardwise/core/spec';
import { limitMessage } from '../transports/limit-message.ts';
import { messageLengthError, type MessageLabel } from '../transports/message-errors.ts';
import { costOf } from './port-message.ts';

interface Receiver {
  readonly label: MessageLabel;
  readonly bytes: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** The messages of one tag that have no receiver yet, or the receivers that have no message yet. */
interface Mailbox {
  readonly messages: Uint8Array[];
  readonly receivers: Receiver[];
}

export interface PortInboxOptions {
  readonly rank: number;
  readonly peer: number;
  /** Called when a message of this cost has been received. */
  readonly onTaken: (cost: number) => void;
}

/** Takes what one peer sends to this rank, and gives each message to the receiver of its tag, in order. */
export class PortInbox {
  readonly #options: PortInboxOptions;
  readonly #mailboxes = new Map<number, Mailbox>();
  #waitingCost = 0;
  #ended: Error | undefined;

  constructor(options: PortInboxOptions) {
    this.#options = options;
  }

  /** The cost of the messages that nobody has received. */
  get waitingCost(): number {
    return this.#waitingCost;
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
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const receiver: Receiver = { label, bytes, resolve, reject };
    const mailbox = this.#mailbox(tag);
    const message = mailbox.messages.shift();
    if (message !== undefined) {
      this.#waitingCost -= costOf(message.byteLength);
      this.#hand(message, receiver);
    } else if (this.#ended !== undefined) reject(this.#ended);
    else mailbox.receivers.push(receiver);
    this.#tidy(tag);
    if (options === undefined) return promise;
    return limitMessage(promise, label, options, (error) => {
      const index = mailbox.receivers.indexOf(receiver);
      if (index >= 0) mailbox.receivers.splice(index, 1);
      this.#tidy(tag);
      reject(error);
    });
  }

  deliver(tag: number, message: Uint8Array): void {
    if (this.#ended !== undefined) return;
    const mailbox = this.#mailbox(tag);
    const receiver = mailbox.receivers.shift();
    if (receiver !== undefined) this.#hand(message, receiver);
    else {
      mailbox.messages.push(message);
      this.#waitingCost += costOf(message.byteLength);
    }
    this.#tidy(tag);
  }

  /** Notes that no more messages will come. Those that are here can still be received. */
  end(error: Error): void {
    this.#ended ??= error;
    for (const [tag, { receivers }] of this.#mailboxes) {
      for (const { reject } of receivers.splice(0)) reject(error);
      this.#tidy(tag);
    }
  }

  /** Does what `end` does, and drops the messages that are here. */
  fail(error: Error): void {
    this.end(error);
    this.#mailboxes.clear();
    this.#waitingCost = 0;
  }

  #hand(message: Uint8Array, { label, bytes, resolve, reject }: Receiver): void {
    this.#options.onTaken(costOf(message.byteLength));
    if (message.byteLength === bytes.byteLength) {
      bytes.set(message);
      resolve();
    } else reject(messageLengthError(label, message.byteLength));
  }

  #mailbox(tag: number): Mailbox {
    const known = this.#mailboxes.get(tag);
    if (known !== undefined) return known;
    const mailbox: Mailbox = { messages: [], receivers: [] };
    this.#mailboxes.set(tag, mailbox);
    return mailbox;
  }

  /** Forgets an empty mailbox, as programs use ever new tags. */
  #tidy(tag: number): void {
    const mailbox = this.#mailboxes.get(tag);
    if (mailbox?.messages.length === 0 && mailbox.receivers.length === 0) {
      this.#mailboxes.delete(tag);
    }
  }
}
