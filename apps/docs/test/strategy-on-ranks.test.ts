import { full, manualSeed, nn, optim, statistics } from '@shardwise/core';
import { parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { independent } from '../examples/own-strategy.ts';

it('four ranks of the strategy train models of their own, and send nothing', async () => {
  const weights = await onRanks(4, async ({ rank }) => {
    manualSeed(0);
    const parallel = await parallelize(new nn.Linear(1, 1), independent());
    const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
    parallel
      .forward(full([1, 1], rank))
      .sum()
      .backward();
    await optimizer.step();
    expect(statistics().collectives).toBe(0);
    return parallel.module.weight.item();
  });
  const [first = NaN] = weights;
  expect(weights.map((weight) => first - weight)).toEqual(
    // The gradient of a rank's weight is its input, which is the rank's number.
    [0, 0.1, 0.2, 0.3].map((distance) => expect.closeTo(distance, 6)),
  );
});
