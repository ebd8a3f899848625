import type { ShardedUnit } from './sharded-unit.ts';

/**
 * Gathers all units in each forward pass, in the order in which the model declares them, whether or not this rank runs
 * them. A unit is gathered when the pass comes to it, or to one that follows, or at the end of the pass.
 */
export class ForwardOrder {
  readonly #root: ShardedUnit | undefined;
  readonly #units: readonly ShardedUnit[];
  readonly #prefetch: number;
  /** The number of units that the present pass has gathered, besides the root. */
  #gathered = 0;

  /** `root` is the unit of the whole model, and `prefetch` the number of units that are gathered ahead of their use. */
  constructor(root: ShardedUnit | undefined, units: readonly ShardedUnit[], prefetch: number) {
    this.#root = root;
    this.#units = units;
    this.#prefetch = prefetch;
  }

  begin(): void {
    this.#root?.collectForAll();
    this.#gathered = 0;
    this.#gather(this.#prefetch);
  }

  reach(unit: ShardedUnit): void {
    this.#gather(this.#units.indexOf(unit) + 1 + this.#prefetch);
  }

  end(): void {
    this.#gather(this.#units.length);
  }

  #gather(count: number): void {
    for (const unit of this.#units.slice(this.#gathered, count)) unit.collectForAll();
    this.#gathered = Math.max(this.#gathered, count);
  }
}
