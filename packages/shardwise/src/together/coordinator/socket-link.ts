import type { WebSocket } from 'ws';
import { ALIVE_MS, SILENT_MS } from '../protocol/limits.ts';
import type { Frame, Link, LinkEvents } from '../protocol/link.ts';
import { encodeMessage } from '../protocol/messages.ts';

/** A frame costs its bytes, but not less than so many. */
const MIN_FRAME_COST = 1024;
/** A member may send the bytes of so many seconds at once. */
const BURST_SECONDS = 2;

/** The end of a member's connection at its coordinator. Who sends faster than `bytesPerSecond` is read later. */
export class SocketLink implements Link {
  readonly #socket: WebSocket;
  readonly #events: LinkEvents;
  readonly #bytesPerSecond: number;
  readonly #timer: NodeJS.Timeout;
  #resume: NodeJS.Timeout | undefined;
  #credit: number;
  #creditMs = performance.now();
  #heardMs = performance.now();
  #pingedMs: number | null = null;
  #roundTripMs: number | undefined;
  #isClosed = false;

  constructor(socket: WebSocket, bytesPerSecond: number, connect: (link: Link) => LinkEvents) {
    this.#socket = socket;
    this.#bytesPerSecond = bytesPerSecond;
    this.#credit = bytesPerSecond * BURST_SECONDS;
    this.#events = connect(this);
    socket.on('message', (data: Buffer, isBinary) => {
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      this.#receive(isBinary ? bytes : new TextDecoder().decode(bytes), data.byteLength);
    });
    socket.on('pong', () => this.#answered());
    socket.on('close', () => this.#ended());
    // 'close' follows.
    socket.on('error', () => undefined);
    this.#timer = setInterval(() => this.#check(), ALIVE_MS);
    this.#ping();
  }

  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  get roundTripMs(): number | undefined {
    return this.#roundTripMs;
  }

  send(frame: Frame): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(frame);
  }

  close(): void {
    this.#socket.close();
  }

  /** Ends the connection without waiting for the other end. */
  terminate(): void {
    this.#socket.terminate();
  }

  #receive(frame: Frame, byteLength: number): void {
    if (this.#isClosed) return;
    const nowMs = performance.now();
    this.#heardMs = nowMs;
    const earned = ((nowMs - this.#creditMs) / 1000) * this.#bytesPerSecond;
    this.#creditMs = nowMs;
    this.#credit = Math.min(this.#credit + earned, this.#bytesPerSecond * BURST_SECONDS);
    this.#credit -= Math.max(byteLength, MIN_FRAME_COST);
    if (this.#credit < 0 && this.#resume === undefined) this.#pause();
    this.#events.receive(frame);
  }

  #pause(): void {
    this.#socket.pause();
    const waitMs = (-this.#credit / this.#bytesPerSecond) * 1000;
    this.#resume = setTimeout(() => {
      this.#resume = undefined;
      // Nothing was heard because nothing was read.
      this.#heardMs = performance.now();
      this.#socket.resume();
    }, waitMs);
  }

  #check(): void {
    if (performance.now() - this.#heardMs > SILENT_MS) {
      this.terminate();
      return;
    }
    this.send(encodeMessage({ kind: 'alive' }));
    this.#ping();
  }

  #ping(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#pingedMs = performance.now();
    this.#socket.ping();
  }

  #answered(): void {
    this.#heardMs = performance.now();
    if (this.#pingedMs === null) return;
    this.#roundTripMs = performance.now() - this.#pingedMs;
    this.#pingedMs = null;
  }

  #ended(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#resume);
    this.#events.closed();
  }
}
