import {
  nn,
  optim,
  type ShardwiseError,
  type Strategy,
  type Tensor,
  tensor,
} from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

const strategies: Readonly<Record<string, () => Strategy>> = {
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
async function differ(strategy: Strategy, rank: number): Promise<ShardwiseError | null> {
  class Model extends Branches {
    /** Shape: x [B, 2] -> [B, 2]. */
    forward(x: Tensor): Tensor {
      return (rank === 0 ? this.left : this.right).forward(x);
    }
  }
  const parallel = await parallelize(new Model(), strategy);
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  parallel
    .forward(tensor([[1, 2]]))
    .sum()
    .backward();
  return failureOf(optimizer.step());
}

describe('without findUnusedParameters', () => {
  it.each(Object.entries(strategies))(
    'losses of other parameters on each rank are an error that advises it: %s',
    async (_, strategy) => {
      for (const error of await onRanks(2, ({ rank }) => differ(strategy(), rank))) {
        expect(error?.message).toContain('findUnusedParameters: true lets the losses of ranks use');
        expect(error?.message).toMatch(/'(left|right)\.weight'/);
      }
    },
  );
});
