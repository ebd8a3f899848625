import { manualSeed, noGrad, type Tensor } from '@shardwise/core';
import type { ExpectedTraining, StrategyCases } from '@shardwise/testing';
import { localSgd } from './local-sgd.ts';

const every = 2;

/**
 * Returns the losses of one rank with as many models as there are ranks. Their parameters are replaced by their means.
 */
async function lossesOfManyModels(training: ExpectedTraining): Promise<readonly number[]> {
  const { model, stepCount, shares, batchOf, makeOptimizer } = training;
  const replicas = Array.from({ length: shares }, () => {
    manualSeed(0);
    const module = model.build();
    return { module, optimizer: makeOptimizer(module) };
  });
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step++) {
    if (step > 0 && step % every === 0) average(replicas.map(({ module }) => module.parameters()));
    let sum = 0;
    for (const [share, { module, optimizer }] of replicas.entries()) {
      const { x, y } = batchOf(step, share);
      optimizer.zeroGrad();
      const loss = model.loss(module.forward(x), y);
      loss.backward();
      await optimizer.step();
      sum += await loss.item();
    }
    losses.push(sum / shares);
  }
  return losses;
}

function average(models: readonly (readonly Tensor[])[]): void {
  noGrad(() => {
    for (const [index, first] of (models[0] ?? []).entries()) {
      const same = models.flatMap((parameters) => parameters[index] ?? first);
      const mean = same.reduce((sum, each) => sum.add(each)).div(same.length);
      for (const each of same) each.assign(mean);
    }
  });
}

export const cases: StrategyCases = {
  'local SGD': {
    strategy: () => localSgd({ every }),
    period: every,
    expectedLosses: lossesOfManyModels,
  },
};
