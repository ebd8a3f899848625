import type { Arena } from './arena.ts';
import type { ArenaBuffer } from './arena-buffer.ts';

/**
 * The memory for the temporaries of all executables of a backend. They share one range, because runs never overlap. It
 * is as large as the largest live executable asks.
 */
export class Scratch {
  readonly #arena: Arena;
  readonly #demands: number[] = [];
  #buffer: ArenaBuffer | undefined;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  reserve(byteLength: number): void {
    this.#demands.push(byteLength);
  }

  /** Must be called between runs. */
  release(byteLength: number): void {
    this.#demands.splice(this.#demands.indexOf(byteLength), 1);
    if (this.#demands.length === 0) this.#resize(0);
  }

  /** Returns where the range starts. The range moves only if the demand has grown. Its contents are lost then. */
  address(): number {
    const needed = Math.max(0, ...this.#demands);
    if (needed > (this.#buffer?.byteLength ?? 0)) this.#resize(needed);
    return this.#buffer?.byteOffset ?? 0;
  }

  #resize(byteLength: number): void {
    if (this.#buffer !== undefined) this.#arena.free(this.#buffer);
    this.#buffer = undefined;
    if (byteLength > 0) this.#buffer = this.#arena.alloc(byteLength);
  }
}
