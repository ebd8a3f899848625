import type { StreamReader } from '../../wire/connect.ts';
import { HEADER_BYTES, readHeader, type FrameHeader } from '../../wire/frame-header.ts';
import type { Inbox, Sink } from './inbox.ts';
import { messageKinds, messageLimits } from './message-frame.ts';
import type { Wakefulness } from './wakefulness.ts';

const SPARE_BYTES = 16 * 1024;
/** If fewer bytes of a body are missing, they are read together with the next header. */
const DIRECT_BYTES = 4 * 1024;
/** A message up to this length is kept at once if nobody awaits it. */
const SHORT_BYTES = 64 * 1024;

/** A message whose header has come and that nobody takes yet, with the bytes that came after the header. */
interface Waiting {
  readonly header: FrameHeader;
  rest: Uint8Array;
  /** Whether its receiver has had time to come. */
  isLate: boolean;
}

export interface ReaderEvents {
  readonly onGoodbye: () => void;
  readonly onAbort: (rank: number, reason: Uint8Array) => void;
}

/**
 * Cuts a peer's stream into messages. The kernel reads long bodies straight into their receivers' memory. A long
 * message that nobody awaits stops the stream for one turn of the event loop, because its receiver often comes soon. If
 * the receiver has not come then, the stream waits until there is room to keep the message.
 *
 *   head ──► body ──► head …
 *     └────► waiting ──► body
 */
export class MessageReader implements StreamReader {
  /** Called when reading goes on. */
  onResume: () => void = () => {};
  readonly #inbox: Inbox;
  readonly #wakefulness: Wakefulness;
  readonly #events: ReaderEvents;
  readonly #head = new Uint8Array(HEADER_BYTES);
  readonly #headView = new DataView(this.#head.buffer);
  readonly #spares = [new Uint8Array(SPARE_BYTES), new Uint8Array(SPARE_BYTES)] as const;
  #headFilled = 0;
  #sink: Sink | undefined;
  #length = 0;
  #filled = 0;
  #waiting: Waiting | undefined;
  #isDirect = false;
  #isDiscarding = false;

  constructor(inbox: Inbox, wakefulness: Wakefulness, events: ReaderEvents) {
    this.#inbox = inbox;
    this.#wakefulness = wakefulness;
    this.#events = events;
    inbox.onRoom = () => this.#retry();
  }

  target(): Uint8Array {
    const left = this.#length - this.#filled;
    this.#isDirect = this.#sink?.bytes !== undefined && left >= DIRECT_BYTES;
    if (this.#isDirect && this.#sink?.bytes !== undefined) {
      return this.#sink.bytes.subarray(this.#filled);
    }
    this.#isDirect = false;
    const [first, second] = this.#spares;
    return this.#waiting?.rest.buffer === first.buffer ? second : first;
  }

  read(bytes: Uint8Array): boolean {
    this.#wakefulness.arrive();
    if (this.#isDiscarding) return true;
    if (this.#waiting !== undefined) {
      // TLS hands over what it has decrypted already, although it was told to stop.
      this.#waiting.rest = Buffer.concat([this.#waiting.rest, bytes]);
      return false;
    }
    if (!this.#isDirect) return this.#consume(bytes);
    this.#filled += bytes.byteLength;
    this.#finish();
    return true;
  }

  /** Takes no more messages. Returns false if the next bytes would still go to the memory of a receiver. */
  discard(): boolean {
    this.#isDiscarding = true;
    this.#waiting = undefined;
    this.#sink = undefined;
    if (this.#isDirect) return false;
    this.onResume();
    return true;
  }

  #consume(bytes: Uint8Array): boolean {
    let offset = 0;
    while (offset < bytes.byteLength) {
      if (this.#sink === undefined) {
        offset += this.#fillHead(bytes, offset);
        if (this.#headFilled < HEADER_BYTES) return true;
        if (!this.#open(bytes.subarray(offset))) return false;
      }
      offset += this.#fillBody(bytes, offset);
    }
    return true;
  }

  #fillHead(bytes: Uint8Array, offset: number): number {
    const taken = Math.min(HEADER_BYTES - this.#headFilled, bytes.byteLength - offset);
    this.#head.set(bytes.subarray(offset, offset + taken), this.#headFilled);
    this.#headFilled += taken;
    return taken;
  }

  #fillBody(bytes: Uint8Array, offset: number): number {
    const taken = Math.min(this.#length - this.#filled, bytes.byteLength - offset);
    this.#sink?.bytes?.set(bytes.subarray(offset, offset + taken), this.#filled);
    this.#filled += taken;
    this.#finish();
    return taken;
  }

  /**
   * Begins the message whose header is complete. `rest` came after the header. Returns false if the message must wait.
   */
  #open(rest: Uint8Array): boolean {
    const header = readHeader(this.#headView, messageLimits);
    this.#headFilled = 0;
    const { kind, tag, length } = header;
    if (kind === messageKinds.goodbye) {
      this.#begin({ bytes: undefined, done: this.#events.onGoodbye }, 0);
      return true;
    }
    if (kind === messageKinds.abort) {
      const bytes = new Uint8Array(length);
      this.#begin({ bytes, done: () => this.#events.onAbort(tag, bytes) }, length);
      return true;
    }
    const isShort = length <= SHORT_BYTES;
    const sink =
      this.#inbox.open(tag, length) ??
      (isShort ? this.#inbox.openUnexpected(tag, length) : undefined);
    if (sink !== undefined) {
      this.#begin(sink, length);
      return true;
    }
    const waiting: Waiting = { header, rest, isLate: isShort };
    this.#waiting = waiting;
    if (!isShort) {
      setImmediate(() => {
        waiting.isLate = true;
        if (this.#waiting === waiting) this.#retry();
      });
    }
    return false;
  }

  #begin(sink: Sink, length: number): void {
    this.#sink = sink;
    this.#length = length;
    this.#filled = 0;
    this.#finish();
  }

  #finish(): void {
    if (this.#filled < this.#length) return;
    const sink = this.#sink;
    this.#sink = undefined;
    this.#length = 0;
    this.#filled = 0;
    sink?.done();
  }

  #retry(): void {
    if (this.#waiting === undefined) return;
    const { header, rest, isLate } = this.#waiting;
    const { tag, length } = header;
    const sink =
      this.#inbox.open(tag, length) ??
      (isLate ? this.#inbox.openUnexpected(tag, length) : undefined);
    if (sink === undefined) return;
    this.#waiting = undefined;
    this.#begin(sink, length);
    if (this.#consume(rest)) this.onResume();
  }
}
