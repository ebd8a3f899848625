/** Copies a block to a place outside of the cache, or back. */
export interface BlockSwap {
  readonly block: number;
  readonly place: number;
}

/** What a preempted sequence has outside of the cache: its first tokens, in as many places as they have blocks. */
export interface SwappedTokens {
  readonly places: readonly number[];
  /** The number of tokens. */
  readonly length: number;
}

/** Counts the places for blocks outside of the cache. It knows no contents. */
export class SwapSpace {
  readonly #capacity: () => number;
  /** Places that were used before. */
  readonly #free: number[] = [];
  /** Places from this one on have never been used. */
  #unused = 0;

  /** `capacity` is how many places there are, which need not be known before they are asked for. */
  constructor(capacity: () => number) {
    this.#capacity = capacity;
  }

  get used(): number {
    return this.#unused - this.#free.length;
  }

  /** Takes places. Undefined if there are not so many. */
  take(count: number): readonly number[] | undefined {
    if (this.used + count > this.#capacity()) return undefined;
    return Array.from({ length: count }, () => this.#free.pop() ?? this.#unused++);
  }

  giveBack(places: readonly number[]): void {
    this.#free.push(...places);
  }

  /** What contradicts itself, given all places that sequences have. Empty if all is well. */
  faults(places: readonly number[]): readonly string[] {
    const all = [...places, ...this.#free].toSorted((a, b) => a - b);
    const isWhole = all.length === this.#unused && all.every((place, index) => place === index);
    return isWhole ? [] : ['a place of swapped blocks is lost, or has two users'];
  }
}
