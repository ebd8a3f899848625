import { manualSeed } from '@shardwise/core';
import type { ExpectedTraining, StrategyCases } from '@shardwise/testing';
import { independent } from '../own-strategy.ts';

/** Returns the mean losses of as many models as there are ranks, each trained on its own part of the batches. */
async function lossesOfManyModels(training: ExpectedTraining): Promise<readonly number[]> {
  const { model, stepCount, shares, batchOf, makeOptimizer } = training;
  const models = Array.from({ length: shares }, (_, rank) => {
    // The suite begins with other values on each rank, and this strategy keeps them.
    manualSeed(rank);
    const module = model.build();
    return { module, optimizer: makeOptimizer(module) };
  });
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step += 1) {
    let sum = 0;
    for (const [share, { module, optimizer }] of models.entries()) {
      const { x, y } = batchOf(step, share);
      const loss = model.loss(module.forward(x), y);
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      sum += await loss.item();
    }
    losses.push(sum / shares);
  }
  return losses;
}

export const cases: StrategyCases = {
  independent: { strategy: () => independent(), expectedLosses: lossesOfManyModels },
};
