import type { Socket } from 'node:net';
import { HEADER_BYTES, writeHeader, type FrameHeader } from '../../wire/frame-header.ts';
import { messageKinds } from './message-frame.ts';

/** Up to here, copying a message behind its header is cheaper than writing two pieces. */
const SHORT_BYTES = 16 * 1024;
/** Of short messages that leave together. */
const BATCH_BYTES = 64 * 1024;
/** Over this, the senders of copied messages wait as well. */
const MAX_QUEUED_BYTES = 4 << 20;

const COPIED: Promise<void> = Promise.resolve();

/**
 * Writes messages to one peer. Short ones that are sent in one go, a call's record and its data say,
 * leave with one call of the system.
 */
export class Outbox {
  readonly #socket: Socket;
  #batch = new DataView(new ArrayBuffer(BATCH_BYTES));
  /** Of the batch, in bytes. */
  #filled = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Settles when `bytes` may be reused. */
  send(tag: number, bytes: Uint8Array): Promise<void> {
    const header = { kind: messageKinds.message, tag, length: bytes.byteLength };
    if (bytes.byteLength <= SHORT_BYTES) return this.#add(header, bytes);
    this.#flush();
    const head = new Uint8Array(HEADER_BYTES);
    writeHeader(new DataView(head.buffer), header);
    this.#socket.cork();
    this.#socket.write(head);
    const written = this.#write(bytes);
    this.#socket.uncork();
    return written;
  }

  #add(header: FrameHeader, bytes: Uint8Array): Promise<void> {
    const length = HEADER_BYTES + bytes.byteLength;
    if (this.#filled + length > BATCH_BYTES) this.#flush();
    if (this.#filled === 0) queueMicrotask(() => this.#flush());
    writeHeader(this.#batch, header, this.#filled);
    new Uint8Array(this.#batch.buffer).set(bytes, this.#filled + HEADER_BYTES);
    this.#filled += length;
    // A failure of the socket ends the link, whoever waits.
    return this.#socket.writableLength > MAX_QUEUED_BYTES ? this.#write(this.#take()) : COPIED;
  }

  #flush(): void {
    if (this.#filled === 0) return;
    const { buffer } = this.#batch;
    const bytes = this.#take();
    this.#socket.write(bytes);
    // What the system has not taken at once is the socket's until it has.
    if (bytes.buffer === buffer && this.#socket.writableLength > 0) {
      this.#batch = new DataView(new ArrayBuffer(BATCH_BYTES));
    }
  }

  /** The batch, or a copy where it has to wait: many small ones might. */
  #take(): Uint8Array {
    const bytes = new Uint8Array(this.#batch.buffer, 0, this.#filled);
    this.#filled = 0;
    return this.#socket.writableLength > 0 ? bytes.slice() : bytes;
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
