import { fromData, manualSeed, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { floatsOf, stateOf, valuesOf } from '../../../test/support/model-values.ts';
import { expectAsOneRank, oncePerKey } from './as-one-rank.ts';

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

const [items, steps] = [12, 4];

/** Returns this rank's part of a batch. Shape: -> [items / size, 2, 3, 2]. */
function batch(step: number, { rank, size }: Pick<RankInThread, 'rank' | 'size'>): Tensor {
  const share = items / size;
  const values = Float32Array.from({ length: share * 12 }, (_, i) =>
    Math.sin((rank * share * 12 + i) * 1.7 + step),
  );
  return fromData(values, [share, 2, 3, 2], 'f32');
}

function build(): nn.Sequential {
  manualSeed(5);
  const model = new nn.Sequential(
    new nn.Conv2d(2, 4, 2),
    new nn.BatchNorm2d(4),
    new nn.ReLU(),
    new nn.SyncBatchNorm(4),
    new nn.Flatten(),
    new nn.Linear(8, 3),
  );
  return nn.convertSyncBatchNorm(model);
}

/** Trains as one of the ranks that share each batch, or without a strategy. */
async function train(place: Parameters<typeof batch>[1], strategy: (() => Strategy) | null) {
  const model = build();
  const trained = strategy === null ? model : await parallelize(model, strategy());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.2, momentum: 0.9 });
  const averaged = new optim.AveragedWeights(model, { decay: 0.7 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    model.zeroGrad();
    const loss = trained.forward(batch(step, place)).square().mean();
    loss.backward();
    await optimizer.step();
    averaged.update();
    losses.push(await loss.item());
  }
  model.eval();
  const again = new optim.AveragedWeights(model, { decay: 0.7 });
  const { weights, updates } = await averaged.stateDict();
  await again.loadStateDict({ updates, weights });
  const evaluate = (): Promise<number[]> =>
    valuesOf(trained.forward(batch(9, { rank: 0, size: 4 })));
  return {
    losses,
    state: await stateOf(model),
    average: floatsOf(weights),
    /** The outputs of evaluation with the averaged parameters, and then with the parameters themselves. */
    evaluated: [await again.use(evaluate), await evaluate()].flat(),
  };
}

const alone = oncePerKey(() => train({ rank: 0, size: 1 }, null));

it.each(Object.entries(strategies))(
  'SyncBatchNorm under %s is batch norm of the whole batch on one rank: losses, parameters and statistics, an average of weights, and evaluation',
  async (_, strategy) => {
    const tolerance = { rtol: 1e-4, atol: 1e-5 };
    const expected = await alone(null);
    const ranks = await onRanks(3, (place) => train(place, strategy));
    expectAsOneRank(ranks, expected, tolerance);
    for (const { average, evaluated } of ranks) {
      expect(Object.keys(average)).toEqual(Object.keys(expected.average));
      for (const [name, values] of Object.entries(expected.average)) {
        assertAllclose(average[name] ?? [], values, tolerance);
      }
      assertAllclose(evaluated, expected.evaluated, tolerance);
    }
  },
);
