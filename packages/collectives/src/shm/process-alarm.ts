import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs';
import type { Alarm } from '../shared-memory/alarm.ts';
import { Bell, BellNumbers, type MemoryMap } from '../shared-memory/world-memory-map.ts';

const BYTE = new Uint8Array(1);

/**
 * Wakes processes by a byte in the pipe on which their event loops sleep. A word of shared memory would wake
 * only threads of this process, and a futex would need a thread that sleeps on it.
 */
export class ProcessAlarm implements Alarm {
  protected readonly words: Int32Array;
  protected readonly numbers: Float64Array;
  readonly #map: MemoryMap;
  readonly #pipes = new Map<number, number>();

  constructor(memory: WebAssembly.Memory, map: MemoryMap) {
    this.words = new Int32Array(memory.buffer);
    this.numbers = new Float64Array(memory.buffer);
    this.#map = map;
  }

  wake(rank: number): void {
    try {
      const pipe = this.#pipes.get(rank) ?? this.#open(rank);
      if (pipe !== undefined) writeSync(pipe, BYTE);
    } catch {
      // A full pipe wakes its reader anyway, and findFailure notices that a process has ended.
    }
  }

  /** Closes the pipes that are open. They are opened again when they are needed. */
  closePipes(): void {
    for (const pipe of this.#pipes.values()) closeSync(pipe);
    this.#pipes.clear();
  }

  protected bell(rank: number): { readonly word: number; readonly number: number } {
    const byte = this.#map.bell(rank);
    return { word: byte / 4, number: byte / 8 };
  }

  /**
   * Opens the pipe of a rank. Returns undefined if the rank has left, or if its process id belongs to another
   * process now.
   */
  #open(rank: number): number | undefined {
    const { word, number } = this.bell(rank);
    const pid = Atomics.load(this.words, word + Bell.pid);
    if (pid <= 0) return undefined;
    const path = `/proc/${pid}/fd/${this.words[word + Bell.pipe] ?? -1}`;
    const pipe = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    const { ino } = fstatSync(pipe);
    if (ino !== this.numbers[number + BellNumbers.pipeInode]) {
      closeSync(pipe);
      return undefined;
    }
    this.#pipes.set(rank, pipe);
    return pipe;
  }
}
