import type { Alarm } from '../shared-memory/alarm.ts';
import type { MemoryMap } from '../shared-memory/memory-map.ts';

/** Wakes threads of this process, which sleep on the word of their bell. */
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
