import { allGather, type Node, noGrad, Tensor, withoutValues } from '@shardwise/core/extend';
import { asVarying, type Place } from '../layout/equal-parts.ts';
import { ShardedPart } from './sharded-part.ts';

/** One of the parts that stand behind each other. Shape: padded -> part. */
function sliceOf(padded: Tensor, { size, rank }: Place): Tensor {
  const rows = (padded.shape[0] ?? 0) / size;
  return padded.slice(0, rank * rows, (rank + 1) * rows);
}

/** This rank keeps the whole contents, updates its part, and gives that to the others. */
abstract class ReplicatedPart extends ShardedPart {
  #part: Node | null = null;
  #partOf: Node | null = null;

  /** Shape: -> part. */
  override get node(): Node {
    const { contents } = this;
    // Not the expression of an earlier step, whose value would be that of then.
    const isCurrent =
      this.#partOf === contents &&
      this.#part !== null &&
      this.#part.value === null &&
      this.#part.id > contents.updatedAt;
    if (isCurrent && this.#part !== null) return this.#part;
    const slice = withoutValues(() =>
      noGrad(() => sliceOf(asVarying(new Tensor(contents), this.axis), this.place)),
    );
    this.#part = slice.node;
    this.#partOf = contents;
    return slice.node;
  }

  override collect(): Node {
    return this.contents;
  }

  /** Shape: value of this rank's part. */
  override store(value: Node): this {
    return super.store(noGrad(() => allGather(new Tensor(value), this.axis, 0)).node);
  }
}

/** This rank keeps its part of the gradient (ZeRO-2). */
export class GradientShardedPart extends ReplicatedPart {}

/**
 * This rank keeps the whole gradient of its own batches (ZeRO-1); its part of the mean is made when
 * the step's program asks for it, in the place where that gradient became complete.
 */
export class StateShardedPart extends ReplicatedPart {
  protected override get keepsWholeGradient(): boolean {
    return true;
  }
}
