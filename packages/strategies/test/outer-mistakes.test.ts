import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import {
  ConfigError,
  LineMesh,
  manualSeed,
  nn,
  ones,
  optim,
  setRank,
  TensorStateError,
} from '@shardwise/core';
import { diloco, parallelize } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => {
  const [group] = createLoopbackTransports(1).map((transport) => createGroup(transport));
  if (group !== undefined) setRank({ device: interpreter(), mesh: new LineMesh('dp', group) });
  manualSeed(0);
});

const model = (): nn.Sequential => new nn.Sequential(new nn.Linear(2, 3), new nn.Linear(3, 1));

async function passOf(parallel: {
  forward(x: ReturnType<typeof ones>): ReturnType<typeof ones>;
}): Promise<void> {
  parallel
    .forward(ones([4, 2]))
    .square()
    .mean()
    .backward();
}

describe('a mistake with outer steps is an error that says what to do', () => {
  it('one strategy for two models', async () => {
    const strategy = diloco({ every: 2 });
    await parallelize(model(), strategy);
    await expect(parallelize(model(), strategy)).rejects.toThrow(
      'Make a strategy for each model: parallelize(model, diloco({ … }))',
    );
  });

  it('a second strategy for one model', async () => {
    const module = model();
    await parallelize(module, diloco({ every: 2 }));
    await expect(parallelize(module, diloco({ every: 2 }))).rejects.toThrow(ConfigError);
  });

  it('several optimizers, whose updates would be counted one by one', async () => {
    const module = model();
    const parallel = await parallelize(module, diloco({ every: 2 }));
    const [first, second] = module.parameters().map((each) => new optim.SGD([each], { lr: 0.1 }));
    await passOf(parallel);
    await first?.step();
    await expect(second?.step()).rejects.toThrow('Give one optimizer all parameters');
  });

  it('a parameter that was frozen when the strategy was applied', async () => {
    const module = model();
    const [frozen] = module.parameters();
    frozen?.requiresGrad_(false);
    const parallel = await parallelize(module, diloco({ every: 2 }));
    const optimizer = new optim.SGD(module.parameters(), { lr: 0.1 });
    await passOf(parallel);
    await optimizer.step();
    frozen?.requiresGrad_(true);
    await passOf(parallel);
    await expect(optimizer.step()).rejects.toThrow('was frozen when the strategy was applied');
  });

  it('values that are not finite', async () => {
    const module = model();
    const strategy = diloco({ every: 1 });
    const parallel = await parallelize(module, strategy);
    const optimizer = new optim.SGD(module.parameters(), { lr: Number.MAX_VALUE });
    await passOf(parallel);
    await optimizer.step().then(
      () => expect.unreachable(),
      (error: unknown) => {
        expect(error).toBeInstanceOf(TensorStateError);
        expect(error).toMatchObject({ fields: { parameter: '0.weight' } });
      },
    );
  });

  it('a state that is none', async () => {
    const strategy = diloco({ every: 2 });
    expect(() => strategy.outer.loadStateDict({})).toThrow(
      'Call parallelize(model, strategy) first',
    );
    await parallelize(model(), strategy);
    expect(() => strategy.outer.loadStateDict({ updates: -1 })).toThrow(ConfigError);
  });
});

it('a detached model trains alone, and another strategy may be applied to it', async () => {
  const module = model();
  const strategy = diloco({ every: 1 });
  const parallel = await parallelize(module, strategy);
  parallel.detach();
  const optimizer = new optim.SGD(module.parameters(), { lr: 0.1 });
  await passOf(module);
  await optimizer.step();
  expect(strategy.outer.outerSteps).toBe(0);
  await parallelize(module, diloco({ every: 2 }));
});
