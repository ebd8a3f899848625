import {
  allGather,
  CollectiveMismatchError,
  fromData,
  isGradEnabled,
  noGrad,
  type Tensor,
} from '@shardwise/core/extend';
import { batchMark, isSameData } from '../batch-mark.ts';
import { bytesNow } from '../bytes-now.ts';
import type { PassHooks } from '../plan/plan-context.ts';

/**
 * Compares the first batches of training and of evaluation, which the ranks of an axis have alike if they share out layers.
 * They tell each other in the pass, and what they have told is compared in the next one.
 */
export class SameBatch implements PassHooks {
  readonly #axis: string;
  readonly #compared = new Set<boolean>();
  readonly #sent: Tensor[] = [];

  constructor(axis: string) {
    this.#axis = axis;
  }

  /** A collective of the graph in a first pass. Throws CollectiveMismatchError on all ranks. */
  beforeForward(inputs: readonly unknown[]): void {
    this.#compare();
    if (this.#compared.has(isGradEnabled())) return;
    this.#compared.add(isGradEnabled());
    const { shapes, data } = batchMark(inputs);
    const own = fromData(Int32Array.of(shapes, data), [2], 'i32');
    this.#sent.push(noGrad(() => allGather(own, this.#axis, 0)).retain());
  }

  #compare(): void {
    for (let [sent] = this.#sent; sent !== undefined; [sent] = this.#sent) {
      const bytes = bytesNow(sent);
      if (bytes === undefined) return;
      const [shapes, data, ...others] = new Int32Array(bytes.slice().buffer);
      this.#sent.shift();
      sent.dispose();
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
        asked: `another pass of a model whose layers the ranks of '${axis}' share out`,
        found: `an earlier batch of rank ${rank} of '${axis}' was another one than that of rank 0`,
        todo: `Give all ranks of '${axis}' the same batches: share a dataset out over the ranks of the other axes, as by mesh.coordinate('dp')`,
      },
      { rank, axis },
    );
  }
}
