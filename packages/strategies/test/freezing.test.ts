import { fromData, nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import {
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { expectAsOneRank, oncePerKey } from './as-one-rank.ts';
import { failureOf } from './failure-of.ts';
import { filled } from './filled.ts';

interface Variant {
  readonly strategy: () => Strategy;
  readonly hasMaster?: boolean;
  readonly zeroRedundancy?: boolean;
}

const variants: Readonly<Record<string, Variant>> = {
  DDP: { strategy: () => ddp() },
  'DDP in buckets of one parameter': { strategy: () => ddp({ bucketBytes: 1 }) },
  'DDP with findUnusedParameters': { strategy: () => ddp({ findUnusedParameters: true }) },
  'DDP of a static graph': { strategy: () => ddp({ staticGraph: true }) },
  'DDP with a ZeroRedundancyOptimizer': { strategy: () => ddp(), zeroRedundancy: true },
  DataParallel: { strategy: () => dataParallel(), hasMaster: true },
  'ZeRO-1': { strategy: () => zero({ stage: 1 }) },
  'ZeRO-2': { strategy: () => zero({ stage: 2 }) },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
};

/** The way in which a case trains. On one rank without a strategy, it trains the model itself. */
interface Setup {
  readonly parallelize: (
    model: nn.Module & { forward(x: Tensor): Tensor },
  ) => Promise<(x: Tensor) => Tensor>;
  readonly optimizer: (model: nn.Module) => { zeroGrad(): void; step(): Promise<unknown> };
  /** This rank's part of a batch. Shape: -> [B, columns]. */
  readonly batch: (seed: number, columns: number) => Tensor;
}

type Train = (setup: Setup) => Promise<readonly nn.Module[]>;

const globalBatch = 12;

class Layers extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Linear(3, 5),
    new nn.Linear(5, 5),
    new nn.Linear(5, 2),
  ]);

  /** Shape: x [B, 3] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return [...this.layers].reduce((y, layer) => layer.forward(y).tanh(), x);
  }
}

const cases: Readonly<Record<string, Train>> = {
  'a generator whose discriminator is frozen while it trains': async (setup) => {
    const generator = filled(
      new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 2)),
    );
    const discriminator = filled(
      new nn.Sequential(new nn.Linear(2, 4), new nn.Tanh(), new nn.Linear(4, 1)),
    );
    const generate = await setup.parallelize(generator);
    const judge = await setup.parallelize(discriminator);
    const optimizers = [setup.optimizer(generator), setup.optimizer(discriminator)] as const;
    for (let step = 0; step < 3; step++) {
      const fake = generate(setup.batch(step, 3));
      discriminator.requiresGrad_(true);
      optimizers[1].zeroGrad();
      const real = judge(setup.batch(step + 10, 2))
        .sub(1)
        .square()
        .mean();
      real.backward();
      judge(fake.detach()).square().mean().backward();
      await optimizers[1].step();
      discriminator.requiresGrad_(false);
      optimizers[0].zeroGrad();
      judge(generate(setup.batch(step, 3)))
        .sub(1)
        .square()
        .mean()
        .backward();
      await optimizers[0].step();
    }
    return [generator, discriminator];
  },
  'layers that are released one after the other, with hooks': async (setup) => {
    const model = filled(new Layers());
    const [first, second] = model.layers;
    let calls = 0;
    const forward = await setup.parallelize(model);
    for (const { weight } of model.layers) weight.registerPostAccumulateGradHook(() => calls++);
    first?.requiresGrad_(false);
    second?.requiresGrad_(false);
    const optimizer = setup.optimizer(model);
    for (const release of [() => {}, () => second?.requiresGrad_(), () => first?.requiresGrad_()]) {
      release();
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        nn.functional.mseLoss(forward(setup.batch(step, 3)), setup.batch(step, 2)).backward();
        await optimizer.step();
      }
    }
    if (calls !== 2 + 4 + 6) throw new RangeError(`${calls} calls of hooks`);
    return [model];
  },
  'layers that were frozen before and are released later': async (setup) => {
    const model = filled(new Layers());
    const [first, second] = model.layers;
    first?.requiresGrad_(false);
    const forward = await setup.parallelize(model);
    const optimizer = setup.optimizer(model);
    for (let step = 0; step < 4; step++) {
      if (step === 1) first?.requiresGrad_(true);
      if (step === 2) second?.weight.requiresGrad_(false);
      optimizer.zeroGrad();
      nn.functional.mseLoss(forward(setup.batch(step, 3)), setup.batch(step, 2)).backward();
      await optimizer.step();
    }
    return [model];
  },
  'a layer that is frozen with its gradient, which the step still applies': async (setup) => {
    const model = filled(new Layers());
    const forward = await setup.parallelize(model);
    const optimizer = setup.optimizer(model);
    nn.functional.mseLoss(forward(setup.batch(1, 3)), setup.batch(2, 2)).backward();
    model.layers.children[0]?.requiresGrad_(false);
    await optimizer.step();
    return [model];
  },
};

async function parametersOf(models: readonly nn.Module[]): Promise<readonly State[]> {
  return Promise.all(models.map(stateOf));
}
type State = Awaited<ReturnType<typeof stateOf>>;

function rows(seed: number, first: number, count: number, columns: number): Tensor {
  const values = Float32Array.from({ length: count * columns }, (_, i) =>
    Math.sin(seed * 31 + (first * columns + i) * 1.7),
  );
  return fromData(values, [count, columns], 'f32');
}

const settings = { lr: 0.2, momentum: 0.9 };

/** How one rank trains without a strategy. */
const alone: Setup = {
  parallelize: (model) => Promise.resolve((x) => model.forward(x)),
  optimizer: (model) => new optim.SGD(model.parameters(), settings),
  batch: (seed, columns) => rows(seed, 0, globalBatch, columns),
};

/** How a rank trains under a variant. */
function onRank(
  { strategy, hasMaster = false, zeroRedundancy = false }: Variant,
  { rank, size }: RankInThread,
): Setup {
  const share = hasMaster ? globalBatch : globalBatch / size;
  return {
    parallelize: async (model) => {
      const parallel = await parallelize(model, strategy());
      return (x) => parallel.forward(x);
    },
    optimizer: (model) =>
      zeroRedundancy
        ? new ZeroRedundancyOptimizer(model.parameters(), optim.SGD, settings)
        : alone.optimizer(model),
    batch: (seed, columns) => rows(seed, hasMaster ? 0 : rank * share, share, columns),
  };
}

const trainedAlone = oncePerKey(async (train: Train) => parametersOf(await train(alone)));

describe.each(Object.entries(cases))('%s', (name, train) => {
  // DataParallel takes no inputs that require a gradient.
  const possible = Object.entries(variants).filter(
    ([, { hasMaster = false }]) => !(hasMaster && name.startsWith('a generator')),
  );

  it.each(possible)('trains as one rank does: %s', async (_, variant) => {
    const ranks = await onRanks(2, async (rank) =>
      parametersOf(await train(onRank(variant, rank))),
    );
    const held = variant.hasMaster === true ? ranks.slice(0, 1) : ranks;
    for (const [index, expected] of (await trainedAlone(train)).entries()) {
      const states = held.map((models) => ({ losses: [], state: models[index] ?? {} }));
      expectAsOneRank(states, { losses: [], state: expected }, { rtol: 0, atol: 2e-5 });
    }
  });
});

it('ranks that freeze different parameters hear of both', async () => {
  await onRanks(2, async ({ rank }) => {
    const model = filled(new Layers());
    const parallel = await parallelize(model, ddp());
    const optimizer = new optim.SGD(model.parameters(), settings);
    const [first, second] = model.layers;
    (rank === 0 ? first : second)?.bias?.requiresGrad_(false);
    const train = async (): Promise<void> => {
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        parallel
          .forward(rows(step, 0, 1, 3))
          .sum()
          .backward();
        await optimizer.step();
      }
    };
    const error = await failureOf(train());
    expect(error?.code).toBe('COLLECTIVE_MISMATCH');
    expect(error?.message).toMatch(/^Call #\d+ on rank 0 is allReduce/);
    expect(error?.message).toContain('layers.1.bias, layers.1.weight, layers.0.weight');
    expect(error?.message).toContain('layers.1.weight, layers.0.bias, layers.0.weight');
  });
});
