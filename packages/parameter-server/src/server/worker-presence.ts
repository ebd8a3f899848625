import type { RequestClient } from '@shardwise/core/extend';

/** Tracks which workers are connected, and which have been away for too long. */
export class WorkerPresence {
  readonly #leaseMs: number;
  readonly #onLost: (worker: number) => Promise<void>;
  /** Open connections of each worker. */
  readonly #connections = new Map<number, Set<number>>();
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #lost = new Set<number>();

  constructor(leaseMs: number, onLost: (worker: number) => Promise<void>) {
    this.#leaseMs = leaseMs;
    this.#onLost = onLost;
  }

  get lost(): readonly number[] {
    return [...this.#lost];
  }

  /** Call this for each request of a worker. */
  see(worker: number, client: RequestClient): void {
    clearTimeout(this.#timers.get(worker));
    this.#timers.delete(worker);
    this.#lost.delete(worker);
    const open = this.#connections.get(worker) ?? new Set();
    this.#connections.set(worker, open);
    if (open.has(client.number)) return;
    open.add(client.number);
    const gone = (): void => {
      open.delete(client.number);
      if (open.size === 0) this.expect(worker);
    };
    client.closed.addEventListener('abort', gone, { once: true });
  }

  /** Begins the time within which a worker without a connection must come back. */
  expect(worker: number): void {
    if ((this.#connections.get(worker)?.size ?? 0) > 0) return;
    clearTimeout(this.#timers.get(worker));
    const timer = setTimeout(() => {
      this.#lost.add(worker);
      void this.#onLost(worker);
    }, this.#leaseMs);
    timer.unref();
    this.#timers.set(worker, timer);
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
