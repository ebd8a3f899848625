import type { ProductCode } from '../../emit/products/product-code.ts';
import { CREW_BYTES, crewBits, crewFields } from '../../emit/products/crew-layout.ts';
import { addressOf, alignedBytes } from '../../memory/host-address.ts';

/** The most threads of the pool that wait for parts. */
export const MAX_HELPERS = 2;

/** Parts and the addresses of their frames. */
interface CrewPart {
  readonly frameAddress: bigint;
}

/**
 * Threads that share the parts of products. A thread of Node's pool that waits for parts takes one within a microsecond,
 * where a call on the pool takes some 50 until its result is known. A part that no other thread takes is carried out by
 * this one, so nothing waits for a thread to begin.
 */
export class Crew {
  readonly #code: NonNullable<ProductCode['crew']>;
  readonly #helpers: number;
  readonly #words: BigUint64Array;
  /** The lower halves of words, for atomic stores. */
  readonly #halves: Int32Array;
  readonly #frames: BigUint64Array;

  constructor(code: NonNullable<ProductCode['crew']>, threads: number) {
    this.#code = code;
    this.#helpers = threads - 1;
    const bytes = alignedBytes(CREW_BYTES);
    this.#words = new BigUint64Array(bytes.buffer, bytes.byteOffset, CREW_BYTES / 8);
    this.#halves = new Int32Array(bytes.buffer, bytes.byteOffset, CREW_BYTES / 4);
    const frames = alignedBytes(8 * threads);
    this.#frames = new BigUint64Array(frames.buffer, frames.byteOffset, threads);
    this.#words[crewFields.frames / 8] = addressOf(frames);
  }

  /** Carries out the parts. There are at most as many as threads. */
  run(parts: readonly CrewPart[]): void {
    parts.forEach(({ frameAddress }, index) => {
      this.#frames[index] = frameAddress;
    });
    this.#store('done', 0);
    this.#store('parts', parts.length);
    // From now on, other threads may take parts.
    this.#store('next', parts.length * 2 ** crewBits);
    const helpers = Atomics.load(this.#halves, crewFields.helpers / 4);
    for (let each = helpers; each < this.#helpers; each++) {
      Atomics.add(this.#halves, crewFields.helpers / 4, 1);
      try {
        this.#code.help.async(this.#words, () => this.#end());
      } catch {
        // There is no room for another call. This thread carries out what no other one takes.
        Atomics.sub(this.#halves, crewFields.helpers / 4, 1);
        break;
      }
    }
    this.#code.work(this.#words);
  }

  /**
   * Called when a thread has stopped waiting for parts. Machine code reads the words until then, and only this callback
   * keeps them: the call itself does not.
   */
  #end(): void {}

  #store(field: 'done' | 'parts' | 'next', value: number): void {
    Atomics.store(this.#halves, crewFields[field] / 4, value);
  }
}
