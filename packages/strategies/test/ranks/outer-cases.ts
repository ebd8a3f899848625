import { manualSeed, noGrad, type Tensor } from '@shardwise/core';
import { diloco, localSgd } from '@shardwise/strategies';
import type { ExpectedTraining, StrategyCases } from '@shardwise/testing';

/** When and how the models of all ranks meet. */
interface Meetings {
  readonly every: number;
  /** Replaces the values of the models by those from which they go on. */
  readonly meet: (models: readonly (readonly Tensor[])[]) => Promise<void> | void;
}

/** Returns the losses of one rank with as many models as there are ranks. */
export async function lossesOfManyModels(
  training: ExpectedTraining,
  { every, meet }: Meetings,
): Promise<readonly number[]> {
  const { model, stepCount, shares, batchOf, makeOptimizer } = training;
  const replicas = Array.from({ length: shares }, () => {
    manualSeed(0);
    const module = model.build();
    return { module, optimizer: makeOptimizer(module) };
  });
  const losses: number[] = [];
  for (let step = 0; step < stepCount; step++) {
    let sum = 0;
    for (const [share, { module, optimizer }] of replicas.entries()) {
      const { x, y } = batchOf(step, share);
      optimizer.zeroGrad();
      const loss = (model.lossAlone ?? model.loss)(module.forward(x), y);
      loss.backward();
      await optimizer.step();
      sum += await loss.item();
    }
    losses.push(sum / shares);
    if ((step + 1) % every === 0) await meet(replicas.map(({ module }) => module.parameters()));
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

/** Strategies whose ranks meet seldom. With `fragmentUpdateAlpha: 1`, ranks only ever use their own values. */
export const outerCases: StrategyCases = {
  'local SGD': {
    strategy: () => localSgd({ every: 2 }),
    period: 2,
    expectedLosses: (training) => lossesOfManyModels(training, { every: 2, meet: average }),
  },
  'DiLoCo without an outer momentum': {
    strategy: () => diloco({ every: 2, outer: { lr: 1, momentum: 0 } }),
    period: 2,
    expectedLosses: (training) => lossesOfManyModels(training, { every: 2, meet: average }),
  },
  'DiLoCo in fragments that overlap': {
    strategy: () =>
      diloco({ every: 4, fragments: 2, fragmentSyncDelay: 1, fragmentUpdateAlpha: 1 }),
    period: 4,
    expectedLosses: (training) => lossesOfManyModels(training, { every: 4, meet: () => {} }),
  },
  'DiLoCo with a median': {
    strategy: () => diloco({ every: 2, aggregate: 'median', bits: 8, fragmentUpdateAlpha: 1 }),
    period: 2,
    expectedLosses: (training) => lossesOfManyModels(training, { every: 2, meet: () => {} }),
  },
  'DiLoCo in four bits': {
    strategy: () => diloco({ every: 2, bits: 4, fragmentUpdateAlpha: 1 }),
    period: 2,
    expectedLosses: (training) => lossesOfManyModels(training, { every: 2, meet: () => {} }),
  },
};
