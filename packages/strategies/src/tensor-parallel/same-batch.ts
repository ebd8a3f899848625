import { CollectiveMismatchError, isGradEnabled } from '@shardwise/core/extend';
import { batchMark, isSameData } from '../agreement/batch-mark.ts';
import type { PassHooks } from '../plan/plan-context.ts';
import { GatheredInts } from '../agreement/gathered-ints.ts';

/**
 * Checks that the ranks of an axis that shard layers have the same batches. It compares the first batches of
 * training and of evaluation. Ranks exchange marks of their batches in the pass, and the next pass compares them.
 */
export class SameBatch implements PassHooks {
  readonly #axis: string;
  readonly #compared = new Set<boolean>();
  readonly #marks: GatheredInts;

  constructor(axis: string) {
    this.#axis = axis;
    this.#marks = new GatheredInts([axis], 'their batches');
  }

  /** Adds a collective to the graph in a first pass. Throws CollectiveMismatchError on all ranks. */
  beforeForward(inputs: readonly unknown[]): void {
    this.#compare();
    if (this.#compared.has(isGradEnabled())) return;
    this.#compared.add(isGradEnabled());
    const { shapes, data } = batchMark(inputs);
    this.#marks.send(Int32Array.of(shapes, data));
  }

  #compare(): void {
    for (let all = this.#marks.poll(); all !== undefined; all = this.#marks.poll()) {
      const [shapes, data, ...others] = all;
      for (let rank = 1; 2 * rank - 2 < others.length; rank++) {
        const [otherShapes, otherData] = others.slice(2 * rank - 2);
        if (otherShapes !== shapes || !isSameData(data, otherData)) throw this.#otherBatch(rank);
      }
    }
  }

  #otherBatch(rank: number): CollectiveMismatchError {
    const axis = this.#axis;
    return new CollectiveMismatchError(
      {
        asked: `another pass of a model whose layers the ranks of '${axis}' shard`,
        found: `an earlier batch of rank ${rank} of '${axis}' was another one than that of rank 0`,
        todo: `Give all ranks of '${axis}' the same batches: split a dataset over the ranks of the other axes, as by mesh.coordinate('dp')`,
      },
      { rank, axis },
    );
  }
}
