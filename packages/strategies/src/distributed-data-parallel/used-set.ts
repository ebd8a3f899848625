import { TensorStateError } from '@shardwise/core';

/** Which parameters the first pass used, where the caller has said that all passes use the same. */
export class UsedSet {
  readonly #names: readonly string[];
  #used: ReadonlySet<number> | null = null;

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Whether a pass never uses it, as far as is known. */
  isUnused(index: number): boolean {
    return this.#used !== null && !this.#used.has(index);
  }

  /** A pass is over. Throws TensorStateError where it used other parameters than the first one. */
  finish(arrived: ReadonlySet<number>): void {
    const used = (this.#used ??= new Set(arrived));
    this.#check([...arrived.difference(used)], 'got a gradient for the first time');
    this.#check([...used.difference(arrived)], 'got no gradient this time');
  }

  #check(changed: readonly number[], what: string): void {
    if (changed.length === 0) return;
    const names = changed.map((index) => this.#names[index] ?? '');
    throw new TensorStateError(
      {
        asked: 'that every backward pass uses the parameters that the first one used (staticGraph)',
        found: `${names.join(', ')} ${what}`,
        todo: 'Use the same parameters in every pass, or pass findUnusedParameters: true instead of staticGraph',
      },
      { parameters: names },
    );
  }
}
