import type { MessageLabel } from './message-errors.ts';

/** Someone who waits for a message of `bytes.byteLength` bytes. */
export interface Receiver {
  readonly label: MessageLabel;
  readonly bytes: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** The messages of one tag that have no receiver yet, or the receivers that have no message yet, in order. */
interface Mailbox {
  readonly messages: Uint8Array[];
  readonly receivers: Receiver[];
}

/**
 * The mailboxes for the messages of one peer to this rank. Empty ones are forgotten, because programs use ever new
 * tags.
 */
export class Mailboxes {
  readonly #byTag = new Map<number, Mailbox>();

  addReceiver(tag: number, receiver: Receiver): void {
    this.#of(tag).receivers.push(receiver);
  }

  addMessage(tag: number, message: Uint8Array): void {
    this.#of(tag).messages.push(message);
  }

  /** Takes out and returns the receiver that has waited longest for a message of this tag. */
  takeReceiver(tag: number): Receiver | undefined {
    const mailbox = this.#byTag.get(tag);
    const receiver = mailbox?.receivers.shift();
    if (receiver !== undefined) this.#tidy(tag, mailbox);
    return receiver;
  }

  /** Takes out and returns the oldest message of this tag. */
  takeMessage(tag: number): Uint8Array | undefined {
    const mailbox = this.#byTag.get(tag);
    const message = mailbox?.messages.shift();
    if (message !== undefined) this.#tidy(tag, mailbox);
    return message;
  }

  /** Takes out a receiver that no longer waits. Returns false if it did not wait. */
  removeReceiver(tag: number, receiver: Receiver): boolean {
    const mailbox = this.#byTag.get(tag);
    const index = mailbox?.receivers.indexOf(receiver) ?? -1;
    if (index < 0) return false;
    mailbox?.receivers.splice(index, 1);
    this.#tidy(tag, mailbox);
    return true;
  }

  /** Rejects all receivers that wait. Messages stay. */
  rejectReceivers(error: Error): void {
    for (const [tag, mailbox] of this.#byTag) {
      for (const { reject } of mailbox.receivers.splice(0)) reject(error);
      this.#tidy(tag, mailbox);
    }
  }

  /** Drops all messages. Nobody may be waiting. */
  dropMessages(): void {
    this.#byTag.clear();
  }

  #of(tag: number): Mailbox {
    const known = this.#byTag.get(tag);
    if (known !== undefined) return known;
    const mailbox: Mailbox = { messages: [], receivers: [] };
    this.#byTag.set(tag, mailbox);
    return mailbox;
  }

  #tidy(tag: number, mailbox: Mailbox | undefined): void {
    if (mailbox?.messages.length === 0 && mailbox.receivers.length === 0) this.#byTag.delete(tag);
  }
}
