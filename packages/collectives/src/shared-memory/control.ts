import { type AbortCause, ConfigError } from '@shardwise/core/spec';
import type { Alarm } from './alarm.ts';
import { CAUSE_BYTES, CHANNELS, MAGIC, World, type MemoryMap } from './world-memory-map.ts';

const CLAIMED = 1;
const ABORTED = 2;
const HOLDERS_LOCK = -1;

/** The control block of a world. It has typed views of the memory, and what concerns all groups of the world. */
export class Control {
  readonly map: MemoryMap;
  readonly words: Int32Array;
  readonly numbers: Float64Array;
  readonly bytes: Uint8Array;

  readonly #alarm: Alarm;

  /** Throws ConfigError for memory that was not made for this number of ranks. */
  constructor(memory: WebAssembly.Memory, map: MemoryMap, alarm: Alarm) {
    this.map = map;
    this.words = new Int32Array(memory.buffer);
    this.numbers = new Float64Array(memory.buffer);
    this.bytes = new Uint8Array(memory.buffer);
    this.#alarm = alarm;
    if (this.words[World.magic] === MAGIC && this.words[World.size] === map.size) return;
    throw new ConfigError(
      {
        asked: `A world of ${map.size} ranks`,
        found: 'its memory was not made for that size',
        todo: 'Give the ranks the world as createThreadsWorld or createShmWorld returned it',
      },
      { size: map.size },
    );
  }

  /** Ends the world on all ranks. The first cause stays, and later calls change nothing. */
  abort(cause: AbortCause): void {
    const { words, map } = this;
    if (Atomics.compareExchange(words, World.abortState, 0, CLAIMED) !== 0) return;
    const text = new Uint8Array(CAUSE_BYTES);
    const { written } = new TextEncoder().encodeInto(cause.reason, text);
    this.bytes.set(text.subarray(0, written), map.cause());
    words[World.causeLength] = written;
    words[World.abortRank] = cause.rank ?? -1;
    Atomics.store(words, World.abortState, ABORTED);
    for (let rank = 0; rank < map.size; rank++) this.ring(rank);
  }

  abortCause(): AbortCause | undefined {
    if (Atomics.load(this.words, World.abortState) !== ABORTED) return undefined;
    const start = this.map.cause();
    const text = this.bytes.slice(start, start + (this.words[World.causeLength] ?? 0));
    const rank = this.words[World.abortRank] ?? -1;
    return { rank: rank < 0 ? undefined : rank, reason: new TextDecoder().decode(text) };
  }

  /** Wakes a rank if it sleeps. */
  ring(rank: number): void {
    const bell = this.map.bell(rank) / 4;
    if (Atomics.load(this.words, bell) === 0) return;
    Atomics.store(this.words, bell, 0);
    this.#alarm.wake(rank);
  }

  /**
   * Takes a free channel for `holders` ranks, and clears what its last users have left. Returns -1 if none is
   * free.
   */
  takeChannel(holders: number): number {
    for (let channel = 0; channel < CHANNELS; channel++) {
      const word = this.map.channelHolders(channel) / 4;
      if (Atomics.compareExchange(this.words, word, 0, HOLDERS_LOCK) !== 0) continue;
      const start = this.map.rankArea(channel, 0);
      this.bytes.fill(0, start, start + this.map.size * this.map.laneBytes());
      Atomics.store(this.words, word, holders);
      return channel;
    }
    return -1;
  }

  /** Notes that a rank no longer holds the channel. The last one frees it. */
  releaseChannel(channel: number): void {
    Atomics.sub(this.words, this.map.channelHolders(channel) / 4, 1);
  }
}
