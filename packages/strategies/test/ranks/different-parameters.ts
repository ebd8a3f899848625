import { nn, optim, type Strategy, tensor, type Tensor } from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { type failure, failureOf } from './failure.ts';

export const strategies: Readonly<Record<string, () => Strategy>> = {
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** Two layers with weights of the same shape. */
class Branches extends nn.Module {
  readonly left = new nn.Linear(2, 2, { bias: false });
  readonly right = new nn.Linear(2, 2, { bias: false });
}

/** Returns the error of a step in which rank 0 uses the left branch, and the others the right one. */
export async function main({
  rank,
  data,
  ...context
}: RankContext): Promise<z.infer<typeof failure>> {
  await join({ rank, data, ...context });
  const strategy = strategies[z.string().parse(data)];
  if (strategy === undefined) throw new RangeError(String(data));
  class Model extends Branches {
    /** Shape: x [B, 2] -> [B, 2]. */
    forward(x: Tensor): Tensor {
      return (rank === 0 ? this.left : this.right).forward(x);
    }
  }
  const parallel = await parallelize(new Model(), strategy());
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  parallel
    .forward(tensor([[1, 2]]))
    .sum()
    .backward();
  return failureOf(optimizer.step());
}
