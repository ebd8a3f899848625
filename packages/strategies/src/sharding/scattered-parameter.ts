import { allGather, type Node, noGrad, Tensor } from '@shardwise/core';
import { ShardedParameter, type Reduce } from './sharded-parameter.ts';

/** Each rank keeps its part of the contents and of the gradient (ZeRO-3, FSDP). */
export class ScatteredParameter extends ShardedParameter {
  override get partNode(): Node {
    return this.contents;
  }

  override collect(): Node {
    return noGrad(() => allGather(new Tensor(this.contents), this.axis, 0)).node;
  }

  override reduceGradient(gradient: Node, reduce: Reduce): void {
    this.contents.sink?.accumulate(reduce(this.withLocal(gradient)));
  }
}
