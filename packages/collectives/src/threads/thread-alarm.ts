import type { Alarm } from '../shared-memory/alarm.ts';
import type { Layout } from '../shared-memory/layout.ts';

/** Wakes threads of this process, which sleep on the word of their bell. */
export class ThreadAlarm implements Alarm {
  protected readonly words: Int32Array;
  readonly #layout: Layout;

  constructor(memory: WebAssembly.Memory, layout: Layout) {
    this.words = new Int32Array(memory.buffer);
    this.#layout = layout;
  }

  wake(rank: number): void {
    Atomics.notify(this.words, this.bell(rank));
  }

  protected bell(rank: number): number {
    return this.#layout.bell(rank) / 4;
  }
}
