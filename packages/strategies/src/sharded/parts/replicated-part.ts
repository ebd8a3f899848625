import {
  asVarying,
  type Node,
  noGrad,
  type Place,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { ShardedPart } from './sharded-part.ts';

/** Returns the part of rank `rank` from the concatenated parts. Shape: padded -> part. */
function sliceOf(padded: Tensor, { size, rank }: Place): Tensor {
  const rows = (padded.shape[0] ?? 0) / size;
  return padded.slice(0, rank * rows, (rank + 1) * rows);
}

/** A part of which the rank keeps the whole contents. The rank updates its part and gathers those of the others. */
abstract class ReplicatedPart extends ShardedPart {
  #part: Node | null = null;
  #partOf: Node | null = null;

  /** The rank's part of the whole contents. Shape: -> part. */
  override get node(): Node {
    const { contents } = this;
    // The expression of an earlier step is not used again, because its value would be that of the earlier contents.
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

  /** Gathers the new parts of all ranks and stores the whole. Shape: value has that of this rank's part. */
  override store(value: Node): this {
    return super.store(this.gatherParts(new Tensor(value)).node);
  }
}

/** A part of which the rank keeps the whole contents and its part of the gradient (ZeRO-2). */
export class GradientShardedPart extends ReplicatedPart {}

/**
 * A part of which the rank keeps the whole contents and the whole gradient of its own batches (ZeRO-1). Its part of the
 * average is computed when the step's program asks for it, at the place where the rank's gradient became complete.
 */
export class StateShardedPart extends ReplicatedPart {
  override get keepsWholeGradient(): boolean {
    return true;
  }
}
