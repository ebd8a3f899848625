import { fromData, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { expectAsOneRank, oncePerKey } from './as-one-rank.ts';
import { filled } from './filled.ts';

/** The strategies. DDP has no `findUnusedParameters` if all parameters are used, as in user code. */
const strategies: Readonly<Record<string, (allUsed: boolean) => Strategy>> = {
  DDP: (allUsed) => ddp({ findUnusedParameters: !allUsed }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2, bucketBytes: 64 }),
  'ZeRO-3': () => zero({ stage: 3, unitOf: ofLayer }),
  FSDP: () => fsdp({ unitOf: ofLayer }),
};

/** Makes each layer a unit. */
function ofLayer(name: string): string {
  return name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : '';
}

type Net = nn.Module & { forward(x: Tensor): Tensor };

/** Two layers with the sizes 7, 5 and 1. Neither their rows nor their elements can be divided by 2, 3 or 4. */
class Odd extends nn.Module {
  readonly up = new nn.Linear(7, 5);
  readonly down = new nn.Linear(5, 1);

  /** Shape: x [B, 7] -> [B, 1]. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(x).tanh());
  }
}

/** A model with a scale without dims and a shift of one element. */
class Tiny extends nn.Module {
  readonly layer = new nn.Linear(7, 2, { bias: false });
  readonly scale = new nn.Parameter(Float32Array.of(1.5), []);
  readonly shift = new nn.Parameter(Float32Array.of(-0.5), [1]);

  /** Shape: x [B, 7] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return this.layer.forward(x).mul(this.scale).add(this.shift);
  }
}

/** A model in which one whole layer and the bias of another layer do not train. */
class Frozen extends Odd {
  readonly first = new nn.Linear(7, 7);

  constructor() {
    super();
    this.first.requiresGrad_(false);
    this.down.bias?.requiresGrad_(false);
  }

  /** Shape: x [B, 7] -> [B, 1]. */
  override forward(x: Tensor): Tensor {
    return super.forward(this.first.forward(x).gelu());
  }
}

/** Two layers in different units share one weight. */
class Tied extends nn.Module {
  readonly first = new nn.Linear(7, 7);
  readonly second = new nn.Linear(7, 7);

  constructor() {
    super();
    this.second.weight = this.first.weight;
  }

  /** Shape: x [B, 7] -> the same. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x).tanh());
  }
}

class UsedTwice extends nn.Module {
  readonly layer = new nn.Linear(7, 7);
  readonly head = new nn.Linear(7, 3);

  /** Shape: x [B, 7] -> [B, 3]. */
  forward(x: Tensor): Tensor {
    return this.head.forward(this.layer.forward(this.layer.forward(x).tanh()));
  }
}

class NeverUsed extends Odd {
  readonly spare = new nn.Linear(3, 5);
}

const models: Readonly<Record<string, () => Net>> = {
  'parameters that the world does not divide': () => new Odd(),
  'parameters with fewer elements than there are ranks': () => new Tiny(),
  'frozen parameters': () => new Frozen(),
  'a parameter that two modules share': () => new Tied(),
  'a module that is used twice': () => new UsedTwice(),
  'a module that is never used': () => new NeverUsed(),
};

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
const globalBatch = 12;

/** Trains on one rank without a strategy. */
const alone = oncePerKey((build: () => Net) => {
  const model = filled(build());
  return train(model, (x) => model.forward(x), 0, 1);
});

async function train(model: Net, forward: (x: Tensor) => Tensor, rank: number, size: number) {
  // There is no weight decay, because under ddp a parameter that no rank uses has a gradient of zeros.
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });
  const before = await stateOf(model);
  const share = globalBatch / size;
  const losses: number[] = [];
  for (let step = 0; step < 4; step++) {
    optimizer.zeroGrad();
    const first = rank * share * 7;
    const values = Float32Array.from({ length: share * 7 }, (_, i) =>
      Math.sin(step * 31 + (first + i) * 1.7),
    );
    const y = forward(fromData(values, [share, 7], 'f32'));
    const loss = nn.functional.mseLoss(y, y.detach().mul(0).add(0.25));
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const state = await stateOf(model);
  /** The names of values that are the same at the start and at the end. */
  const unchanged = Object.keys(state).filter(
    (name) => JSON.stringify(state[name]) === JSON.stringify(before[name]),
  );
  return { losses, state, unchanged };
}

/** The parameters that keep their values in some cases. */
const kept: Readonly<Record<string, readonly string[]>> = {
  'frozen parameters': ['down.bias', 'first.weight', 'first.bias'],
  'a module that is never used': ['spare.weight', 'spare.bias'],
};

/** Every strategy with every model, each on one of the sizes, so that each size meets all strategies and all models. */
const cases = Object.entries(strategies).flatMap(([title, strategy], row) =>
  Object.entries(models).map(([model, build], column) => {
    const size = [2, 3, 4][(row + column) % 3] ?? 2;
    return { title, strategy, model, build, size };
  }),
);

it.each(cases)(
  '$title on $size ranks trains as one rank does: $model',
  async ({ strategy, model, build, size }) => {
    const chosen = strategy(model !== 'a module that is never used');
    const ranks = await onRanks(size, async ({ rank }) => {
      const trained = filled(build());
      const parallel = await parallelize(trained, chosen);
      return train(trained, (x) => parallel.forward(x), rank, size);
    });
    const expected = await alone(build);
    expect(expected.losses).toHaveLength(4);
    expectAsOneRank(ranks, expected, { rtol: 1e-5, atol: 0 }, { rtol: 0, atol: 2e-5 });
    for (const { unchanged } of ranks) expect(unchanged).toEqual(kept[model] ?? []);
  },
);
