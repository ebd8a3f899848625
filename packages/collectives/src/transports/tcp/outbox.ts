import type { Socket } from 'node:net';
import { HEADER_BYTES, writeHeader } from '../../wire/frame-header.ts';
import { messageKinds } from './message-frame.ts';

/** Up to here, copying a message behind its header is cheaper than writing two pieces. */
const SHORT_BYTES = 16 * 1024;
/** Over this, the senders of copied messages wait as well. */
const MAX_QUEUED_BYTES = 4 << 20;

/** Writes messages to one peer. */
export class Outbox {
  readonly #socket: Socket;
  #isHeld = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Settles when `bytes` may be reused. */
  send(tag: number, bytes: Uint8Array): Promise<void> {
    const { byteLength } = bytes;
    const isShort = byteLength <= SHORT_BYTES;
    const head = Buffer.allocUnsafe(HEADER_BYTES + (isShort ? byteLength : 0));
    const view = new DataView(head.buffer, head.byteOffset, HEADER_BYTES);
    writeHeader(view, { kind: messageKinds.message, tag, length: byteLength });
    if (!isShort) return this.#writeBoth(head, bytes);
    head.set(bytes, HEADER_BYTES);
    this.#hold();
    if (this.#socket.writableLength > MAX_QUEUED_BYTES) return this.#write(head);
    // A failure of the socket ends the link, whoever waits.
    this.#socket.write(head);
    return Promise.resolve();
  }

  #writeBoth(head: Uint8Array, body: Uint8Array): Promise<void> {
    this.#socket.cork();
    this.#socket.write(head);
    const written = this.#write(body);
    this.#socket.uncork();
    this.#release();
    return written;
  }

  /** What is sent in one go leaves with one call of the system: a call's record and its data, say. */
  #hold(): void {
    if (this.#isHeld) return;
    this.#isHeld = true;
    this.#socket.cork();
    queueMicrotask(() => this.#release());
  }

  #release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#socket.uncork();
  }

  #write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#socket.write(bytes, (error) => {
        if (error === null || error === undefined) resolve();
        else reject(error);
      });
    });
  }
}
