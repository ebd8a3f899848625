import type { Arena } from './arena.ts';
import type { ArenaBuffer } from './arena-buffer.ts';

/**
 * One range for the temporaries of all executables of a backend, since runs never overlap. It is
 * as large as the largest live executable asks.
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

  /** Call between runs. */
  release(byteLength: number): void {
    this.#demands.splice(this.#demands.indexOf(byteLength), 1);
    if (this.#demands.length === 0) this.#resize(0);
  }

  /** Where the range starts. It moves only when the demand has grown, and its contents are lost then. */
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
