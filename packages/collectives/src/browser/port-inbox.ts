import { type CallOptions, messageLengthError } from '@shardwise/core/spec';
import { limitMessage } from '../transports/limit-message.ts';
import { Mailboxes, type Receiver } from '../transports/mailboxes.ts';
import { type MessageLabel } from '../transports/message-errors.ts';
import { costOf } from './port-message.ts';

export interface PortInboxOptions {
  readonly rank: number;
  readonly peer: number;
  /** Called when a message of this cost has been received. */
  readonly onTaken: (cost: number) => void;
}

/** Takes what one peer sends to this rank, and gives each message to the receiver of its tag, in order. */
export class PortInbox {
  readonly #options: PortInboxOptions;
  readonly #mailboxes = new Mailboxes();
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
    const message = this.#mailboxes.takeMessage(tag);
    if (message !== undefined) {
      this.#waitingCost -= costOf(message.byteLength);
      this.#hand(message, receiver);
    } else if (this.#ended !== undefined) reject(this.#ended);
    else this.#mailboxes.addReceiver(tag, receiver);
    if (options === undefined) return promise;
    return limitMessage(promise, label, options, (error) => {
      this.#mailboxes.removeReceiver(tag, receiver);
      reject(error);
    });
  }

  deliver(tag: number, message: Uint8Array): void {
    if (this.#ended !== undefined) return;
    const receiver = this.#mailboxes.takeReceiver(tag);
    if (receiver !== undefined) this.#hand(message, receiver);
    else {
      this.#mailboxes.addMessage(tag, message);
      this.#waitingCost += costOf(message.byteLength);
    }
  }

  /** Notes that no more messages will come. Those that are here can still be received. */
  end(error: Error): void {
    this.#ended ??= error;
    this.#mailboxes.rejectReceivers(error);
  }

  /** Does what `end` does, and drops the messages that are here. */
  fail(error: Error): void {
    this.end(error);
    this.#mailboxes.dropMessages();
    this.#waitingCost = 0;
  }

  #hand(message: Uint8Array, { label, bytes, resolve, reject }: Receiver): void {
    this.#options.onTaken(costOf(message.byteLength));
    if (message.byteLength === bytes.byteLength) {
      bytes.set(message);
      resolve();
    } else reject(messageLengthError(label, message.byteLength));
  }
}
