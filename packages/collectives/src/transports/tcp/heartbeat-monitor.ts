import type { Socket } from 'node:net';
import { FrameParser } from '../../wire/frame-parser.ts';
import { heartbeatLimits } from './message-frame.ts';

export interface HeartbeatTimes {
  /** Milliseconds between two heartbeats. */
  readonly intervalMs: number;
  /** Milliseconds without a heartbeat after which a rank counts as lost. */
  readonly limitMs: number;
}

/** Listens for the heartbeats of all peers. */
export class HeartbeatMonitor {
  readonly #times: HeartbeatTimes;
  readonly #onSilence: (peer: number, silentMs: number) => void;
  readonly #heardAt = new Map<number, number>();
  readonly #sockets = new Set<Socket>();
  #timer: NodeJS.Timeout | undefined;
  #tickedAt = 0;

  constructor(times: HeartbeatTimes, onSilence: (peer: number, silentMs: number) => void) {
    this.#times = times;
    this.#onSilence = onSilence;
  }

  has(peer: number): boolean {
    return this.#heardAt.has(peer);
  }

  attach(peer: number, socket: Socket): void {
    const parser = new FrameParser(heartbeatLimits);
    this.#heardAt.set(peer, performance.now());
    this.#sockets.add(socket);
    socket.on('data', (bytes: Uint8Array) => {
      try {
        if (parser.push(bytes).length > 0) this.#heardAt.set(peer, performance.now());
      } catch {
        socket.destroy();
      }
    });
    // When a process ends, its other connections close as well and report it. Anything else that ends this connection
    // counts as silence.
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
    socket.unref();
  }

  start(): void {
    const now = performance.now();
    this.#tickedAt = now;
    for (const peer of this.#heardAt.keys()) this.#heardAt.set(peer, now);
    this.#timer = setInterval(() => this.#tick(), this.#times.intervalMs).unref();
  }

  /** Notes that the silence of this rank no longer matters. */
  forget(peer: number): void {
    this.#heardAt.delete(peer);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#heardAt.clear();
    for (const socket of this.#sockets) socket.destroy();
  }

  #tick(): void {
    const { intervalMs, limitMs } = this.#times;
    const now = performance.now();
    // While this thread was computing, heartbeats may have come that it has not read yet.
    const busyMs = now - this.#tickedAt - intervalMs;
    this.#tickedAt = now;
    for (const [peer, heardAt] of this.#heardAt) {
      const countsFrom = busyMs > intervalMs ? Math.min(heardAt + busyMs, now) : heardAt;
      this.#heardAt.set(peer, countsFrom);
      if (now - countsFrom > limitMs) this.#onSilence(peer, now - countsFrom);
    }
  }
}
