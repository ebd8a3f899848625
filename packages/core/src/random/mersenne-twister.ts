const WORDS = 624;
const MIDDLE = 397;

/**
 * MT19937 (Matsumoto and Nishimura 1998), seeded as PyTorch's CPU engine is: with the low 32 bits
 * of the seed.
 */
export class MersenneTwister {
  static readonly words: number = WORDS;

  #words = new Uint32Array(WORDS);
  #position = WORDS;

  constructor(seed: number) {
    const words = this.#words;
    words[0] = seed;
    let previous = words[0];
    for (let i = 1; i < WORDS; i++) {
      previous = (Math.imul(1812433253, previous ^ (previous >>> 30)) + i) >>> 0;
      words[i] = previous;
    }
  }

  /** The next 32 random bits, as an unsigned integer. */
  next(): number {
    if (this.#position === WORDS) this.#regenerate();
    let y = this.#words[this.#position++] ?? 0;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** The words of the current block, and how many of them `next` has used. */
  snapshot(): { words: Uint32Array<ArrayBuffer>; position: number } {
    return { words: this.#words.slice(), position: this.#position };
  }

  /** Continues from a snapshot: 624 words, position 0 to 624. */
  restore(words: ArrayLike<number>, position: number): void {
    this.#words.set(words);
    this.#position = position;
  }

  #regenerate(): void {
    const words = this.#words;
    for (let i = 0; i < WORDS; i++) {
      const following = words[i + 1 === WORDS ? 0 : i + 1] ?? 0;
      const mixed = ((words[i] ?? 0) & 0x80000000) | (following & 0x7fffffff);
      const far = words[i + MIDDLE < WORDS ? i + MIDDLE : i + MIDDLE - WORDS] ?? 0;
      words[i] = far ^ (mixed >>> 1) ^ (following & 1 ? 0x9908b0df : 0);
    }
    this.#position = 0;
  }
}
