import type { Socket } from 'node:net';
import { HEADER_BYTES, writeHeader, type FrameHeader } from '../../wire/frame-header.ts';
import { messageKinds } from './message-frame.ts';

/** Up to this length, copying a message after its header is cheaper than writing the two one after the other. */
const SHORT_BYTES = 16 * 1024;
/** The length in bytes of the batch in which short messages leave together. */
const BATCH_BYTES = 64 * 1024;
/** If more bytes wait in the socket, the senders of copied messages wait as well. */
const MAX_QUEUED_BYTES = 4 << 20;

const COPIED: Promise<void> = Promise.resolve();

/**
 * Writes messages to one peer. Short messages that are sent in one turn, such as a call's record and its data,
 * leave with one system call.
 */
export class Outbox {
  readonly #socket: Socket;
  #batch = new DataView(new ArrayBuffer(BATCH_BYTES));
  /** The number of bytes in the batch. */
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
    // A failure of the socket ends the link, even if nobody waits for this write.
    return this.#socket.writableLength > MAX_QUEUED_BYTES ? this.#write(this.#take()) : COPIED;
  }

  #flush(): void {
    if (this.#filled === 0) return;
    const { buffer } = this.#batch;
    const bytes = this.#take();
    this.#socket.write(bytes);
    // Bytes that the system has not taken at once belong to the socket until the system has taken them.
    if (bytes.buffer === buffer && this.#socket.writableLength > 0) {
      this.#batch = new DataView(new ArrayBuffer(BATCH_BYTES));
    }
  }

  /** The batch. If it has to wait, this is a copy of it, because many small batches may wait. */
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
