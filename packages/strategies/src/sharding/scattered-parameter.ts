import { allGather, type Node, noGrad, Tensor } from '@shardwise/core';
import { ShardedParameter } from './sharded-parameter.ts';

/** Each rank keeps its part of the contents and of the gradient (ZeRO-3, FSDP). */
export class ScatteredParameter extends ShardedParameter {
  override get partNode(): Node {
    return this.contents;
  }

  override collect(): Node {
    return noGrad(() => allGather(new Tensor(this.contents), this.axis, 0)).node;
  }

  override gradientToReduce(gradient: Node): Node {
    return this.withLocal(gradient);
  }

  override takeReduced(part: Node): void {
    this.contents.sink?.accumulate(part);
  }
}
