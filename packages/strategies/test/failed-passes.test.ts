import { manualSeed, nn, optim, type Strategy, tensor, TensorStateError } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const strategies: readonly (readonly [name: string, strategy: () => Strategy])[] = [
  ['DDP', () => ddp({ bucketBytes: 1 })],
  ['ZeRO-1', () => zero({ stage: 1 })],
  ['ZeRO-2', () => zero({ stage: 2, bucketBytes: 1 })],
  ['ZeRO-3', () => zero({ stage: 3 })],
  ['FSDP', () => fsdp()],
];

/** Returns the losses of three steps, before which a backward pass may have failed half-way. */
async function train(strategy: Strategy, rank: number, failsFirst: boolean): Promise<number[]> {
  manualSeed(0);
  const model = new nn.Sequential(new nn.Linear(3, 4), new nn.Linear(4, 2));
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  if (failsFirst) {
    const x = tensor([[1, rank, 3]]);
    const loss = parallel.forward(x).sum();
    // Backward reaches the first layer last. The gradient of that layer reads x.
    await x.assign(tensor([[0, 0, 0]])).realize();
    expect(() => loss.backward()).toThrow(TensorStateError);
    optimizer.zeroGrad();
  }
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    optimizer.zeroGrad();
    const loss = parallel
      .forward(tensor([[1, 2 * rank, step]]))
      .square()
      .sum();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

describe('a backward pass that fails half-way', () => {
  it.each(strategies)('leaves nothing for the next one: %s', async (_, strategy) => {
    await onRanks(2, async ({ rank }) => {
      const without = await train(strategy(), rank, false);
      expect(without).toHaveLength(3);
      expect(await train(strategy(), rank, true)).toEqual(without);
    });
  });
});
