import type { AbortCause } from '../call/failure.ts';
import { nextTurn } from '../call/next-turn.ts';
import type { Presence } from '../shared-memory/alarm.ts';
import type { MemoryMap } from '../shared-memory/memory-map.ts';
import { ThreadAlarm } from './thread-alarm.ts';

/** A rank that is a thread. Who started the threads of a process hears of their ends. */
export class ThreadPresence extends ThreadAlarm implements Presence {
  readonly lookEveryMs: number = Number.POSITIVE_INFINITY;
  readonly #rank: number;
  readonly #yieldCore: (() => void) | undefined;

  constructor(
    memory: WebAssembly.Memory,
    map: MemoryMap,
    rank: number,
    yieldCore: (() => void) | undefined,
  ) {
    super(memory, map);
    this.#rank = rank;
    this.#yieldCore = yieldCore;
  }

  nap(limitMs: number): void {
    if (this.#yieldCore === undefined) Atomics.wait(this.words, this.bell(this.#rank), 1, limitMs);
    else this.#yieldCore();
  }

  listen(onWake: () => void): void {
    const bell = Atomics.waitAsync(this.words, this.bell(this.#rank), 1);
    if (bell.async) void bell.value.then(onWake);
    else nextTurn(onWake);
  }

  /** Settles what listen waits for. */
  stopListening(): void {
    this.wake(this.#rank);
  }

  findFailure(): AbortCause | undefined {
    return undefined;
  }

  leave(): void {}
}
