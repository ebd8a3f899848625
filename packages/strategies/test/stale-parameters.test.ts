import { createMesh, singleGroup } from '@shardwise/collectives';
import {
  ConfigError,
  hostPages,
  nn,
  ones,
  optim,
  setRank,
  type Strategy,
  type Tensor,
  TensorStateError,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  dataParallel,
  ddp,
  fsdp,
  OffloadedOptimizer,
  parallelize,
  tensorParallel,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(async () => {
  const axes = ['dp', 'tp'].map((name) => ({ name, size: 1 }));
  setRank({ device: interpreter(), mesh: await createMesh(singleGroup(), axes) });
});

const styles = { '0': colwiseParallel({ output: 'invariant' }) };

/** The strategies that replace parameters of a model. */
const replacing: Readonly<Record<string, () => Strategy>> = {
  'zero-1': () => zero({ stage: 1 }),
  'zero-2': () => zero({ stage: 2 }),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  'fsdp in bf16': () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
  'tensor parallelism': () => tensorParallel(styles),
  'tensor parallelism with ddp': () => compose(tensorParallel(styles), ddp()),
  'tensor parallelism with fsdp': () => compose(tensorParallel(styles), fsdp()),
};

interface Step {
  step(): Promise<unknown>;
}

/** Optimizers that are made before the strategy is applied. `step` is what a training loop calls after backward(). */
const optimizers: Readonly<Record<string, (model: nn.Module) => Step>> = {
  'an optimizer': (model) => new optim.Adam(model.parameters()),
  'an optimizer with a schedule': (model) => {
    const optimizer = new optim.SGD(model.parameters());
    const scheduler = new optim.LearningRateScheduler(optimizer, () => 1);
    return {
      step: async () => {
        await optimizer.step();
        scheduler.step();
      },
    };
  },
  'gradients that are clipped': (model) => {
    const parameters = model.parameters();
    return { step: async () => optim.clipGradNorm(parameters, 1).item() };
  },
  'a loss scaler': (model) => {
    const optimizer = new optim.SGD(model.parameters());
    const scaler = new optim.LossScaler(2);
    return { step: () => scaler.step(optimizer) };
  },
  'an OffloadedOptimizer': (model) =>
    new OffloadedOptimizer(model, new optim.SGD(model.parameters()), { states: hostPages() }),
};

describe.each(Object.entries(replacing))('%s', (_, strategy) => {
  it.each(Object.entries(optimizers))('refuses %s made before it', async (__, make) => {
    const model = new nn.Sequential(new nn.Linear(2, 2), new nn.Linear(2, 1));
    const made = make(model);
    const parallel = await parallelize(model, strategy());
    parallel
      .forward(ones([1, 2]))
      .sum()
      .backward();
    await expect(made.step()).rejects.toThrow(TensorStateError);
    await expect(made.step()).rejects.toThrow(/as '0\.weight'\. Make optimizers after parallelize/);
  });

  it('refuses an optimizer of parameters that were listed before it', async () => {
    const model = new nn.Sequential(new nn.Linear(2, 2), new nn.Linear(2, 1));
    const parameters = model.parameters();
    await parallelize(model, strategy());
    expect(() => new optim.SGD(parameters)).toThrow(/Make optimizers after parallelize/);
    expect(() => new ZeroRedundancyOptimizer(parameters, optim.SGD)).toThrow(
      /Make optimizers after parallelize/,
    );
  });
});

describe.each([
  ['ddp', () => ddp()],
  ['dataParallel', () => dataParallel()],
] as const)('%s, which leaves parameters in their places,', (_, strategy) => {
  it.each([
    ['an optimizer', (model: nn.Module) => new optim.Adam(model.parameters())],
    [
      'a ZeroRedundancyOptimizer',
      (model: nn.Module) => new ZeroRedundancyOptimizer(model.parameters(), optim.Adam),
    ],
  ])('takes %s made before it', async (__, make) => {
    const model = new nn.Linear(2, 1, { bias: false });
    const optimizer = make(model);
    const before = await model.weight.data();
    const parallel = await parallelize(model, strategy());
    parallel
      .forward(ones([1, 2]))
      .sum()
      .backward();
    await optimizer.step();
    expect(await model.weight.data()).not.toEqual(before);
  });
});

describe.each(
  Object.entries({ ...replacing, ddp: () => ddp(), dataParallel: () => dataParallel() }),
)('%s', (_, strategy) => {
  it('refuses a forward pass of a model that parameters were put into since, which ranks would not share', async () => {
    class Net extends nn.Module {
      readonly '0' = new nn.Linear(2, 2);
      head = new nn.Linear(2, 1);

      /** Shape: x [B, 2] -> [B, 1]. */
      forward(x: Tensor): Tensor {
        return this.head.forward(this['0'].forward(x));
      }
    }
    const model = new Net();
    const parallel = await parallelize(model, strategy());
    expect(parallel.forward(ones([1, 2])).shape).toEqual([1, 1]);
    model.head = new nn.Linear(2, 3);
    expect(() => parallel.forward(ones([1, 2]))).toThrow(ConfigError);
    expect(() => parallel.forward(ones([1, 2]))).toThrow(
      /head\.weight, head\.bias was put into it after .*before parallelize\(\)/,
    );
  });
});
