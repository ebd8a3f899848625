import type { AbortCause } from '@shardwise/core/spec';
import { onNextTurn } from '@shardwise/core/base';
import type { Alarm, Presence } from '../shared-memory/alarm.ts';
import type { MemoryMap } from '../shared-memory/world-memory-map.ts';

/** Wakes threads of this process, each of which sleeps on the word of its bell. */
export class ThreadAlarm implements Alarm {
  protected readonly words: Int32Array;
  readonly #map: MemoryMap;

  constructor(memory: WebAssembly.Memory, map: MemoryMap) {
    this.words = new Int32Array(memory.buffer);
    this.#map = map;
  }

  wake(rank: number): void {
    Atomics.notify(this.words, this.bell(rank));
  }

  protected bell(rank: number): number {
    return this.#map.bell(rank) / 4;
  }
}

/**
 * A rank that is a thread. It need not look for failures, because whoever started the threads of a process hears when
 * they end.
 */
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
    else onNextTurn(onWake);
  }

  /** Settles the promise on which `listen` waits. */
  stopListening(): void {
    this.wake(this.#rank);
  }

  findFailure(): AbortCause | undefined {
    return undefined;
  }

  leave(): void {}
}
