import { fromData, manualSeed, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

type Numbers = number[];
interface Training {
  losses: Numbers;
  /** The statistics and parameters at the end. `average` is their average over the steps. */
  state: Record<string, Numbers>;
  average: Record<string, Numbers>;
  /** The outputs of evaluation with the averaged parameters, and then with the parameters themselves. */
  evaluated: Numbers[];
}
type Trainings = Record<string, Training>;

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

/** Trains with a forward pass that may be that of a strategy. */
async function train(
  model: nn.Sequential,
  forward: (x: Tensor) => Tensor,
  place: Pick<RankInThread, 'rank' | 'size'>,
): Promise<Training> {
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.2, momentum: 0.9 });
  const averaged = new optim.AveragedWeights(model, { decay: 0.7 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    model.zeroGrad();
    const loss = forward(batch(step, place)).square().mean();
    loss.backward();
    await optimizer.step();
    averaged.update();
    losses.push(await loss.item());
  }
  model.eval();
  const again = new optim.AveragedWeights(model, { decay: 0.7 });
  const { weights, updates } = await averaged.stateDict();
  await again.loadStateDict({ updates, weights });
  const evaluate = async (): Promise<number[]> => [
    ...((await forward(batch(9, { rank: 0, size: 4 })).data()) as Float32Array),
  ];
  const evaluated = [await again.use(evaluate), await evaluate()];
  return { losses, state: listed(await model.stateDict()), average: listed(weights), evaluated };
}

function listed(dict: nn.StateDict): Record<string, number[]> {
  const floats = Object.entries(dict).filter(([, { dtype }]) => dtype === 'f32');
  return Object.fromEntries(
    floats.map(([name, { bytes }]) => [name, [...new Float32Array(bytes.slice().buffer)]]),
  );
}

async function trainAll(place: RankInThread): Promise<Trainings> {
  const found: Trainings = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const model = build();
    const parallel = await parallelize(model, strategy());
    found[name] = await train(model, (x) => parallel.forward(x), place);
  }
  return found;
}

const size = 3;
let ranks: readonly Trainings[] = [];
let alone: Training | undefined;

beforeAll(async () => {
  [alone] = await onRanks(1, (place) => {
    const model = build();
    return train(model, (x) => model.forward(x), place);
  });
  ranks = await onRanks(size, trainAll);
});

function close(found: readonly number[] = [], expected: readonly number[] = []): void {
  expect(found).toHaveLength(expected.length);
  expect(describeDifference(found, expected, { rtol: 1e-4, atol: 1e-5 })).toBeUndefined();
}

describe.each(Object.keys(strategies))('SyncBatchNorm under %s', (strategy) => {
  const each = (): (Training | undefined)[] => ranks.map((rank) => rank[strategy]);

  it('is batch norm of the whole batch on one rank: losses, parameters and statistics', () => {
    const losses = alone?.losses.map(
      (_, step) => each().reduce((sum, rank) => sum + (rank?.losses[step] ?? NaN), 0) / size,
    );
    close(losses, alone?.losses);
    for (const rank of each()) {
      expect(rank?.state).toEqual(each()[0]?.state);
      for (const [name, values] of Object.entries(alone?.state ?? {})) {
        close(rank?.state[name], values);
      }
    }
  });

  it('and an average of weights is that of one rank, in state dicts and in evaluation', () => {
    for (const rank of each()) {
      expect(Object.keys(rank?.average ?? {})).toEqual(Object.keys(alone?.average ?? {}));
      for (const [name, values] of Object.entries(alone?.average ?? {})) {
        close(rank?.average[name], values);
      }
      alone?.evaluated.forEach((outputs, which) => close(rank?.evaluated[which], outputs));
    }
  });
});
