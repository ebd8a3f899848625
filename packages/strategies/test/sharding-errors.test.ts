import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  ConfigError,
  LayoutError,
  LineMesh,
  Linear,
  Module,
  ModuleList,
  ones,
  type ParameterSpec,
  Sequential,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

const strategies: Readonly<Record<string, () => Strategy<Module>>> = {
  'zero-1': () => zero({ stage: 1 }),
  'zero-2': () => zero({ stage: 2 }),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
};
const names = Object.keys(strategies);
const strategyOf = (name: string): Strategy<Module> => strategies[name]?.() ?? fsdp();

/** Holds a list, which has no forward pass. */
class Holder extends Module {
  readonly extra = new ModuleList([new Linear(2, 2)]);

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return [...this.extra].reduce((y, layer) => layer.forward(y), x);
  }
}

describe.each(names)('a model that %s was applied to', (name) => {
  it.each(names)('is refused by %s, and goes on as it was', async (second) => {
    const model = new Sequential(new Linear(2, 2));
    const parallel = await parallelize(model, strategyOf(name));
    const refusal = parallelize(model, strategyOf(second));
    await expect(refusal).rejects.toThrow(ConfigError);
    await expect(refusal).rejects.toThrow(/0\.weight is a part already/);
    parallel
      .forward(ones([1, 2]))
      .sum()
      .backward();
    expect(model.parameters().every(({ grad }) => grad !== null)).toBe(true);
  });
});

describe('units that cannot be made', () => {
  const units = {
    'a name that no module has': { unitOf: () => 'layers.7', error: LayoutError },
    'a module without forward pass': { unitOf: () => 'extra', error: ConfigError },
  };

  it.each(Object.entries(units))('are refused, leaving the model whole: %s', async (_, unit) => {
    const model = new Holder();
    const before = model.parameters();
    for (const strategy of [fsdp(unit), zero({ stage: 3, ...unit })]) {
      await expect(parallelize(model, strategy)).rejects.toThrow(unit.error);
    }
    expect(model.parameters()).toEqual(before);
    const parallel = await parallelize(model, fsdp());
    expect(await parallel.forward(ones([1, 2])).data()).toHaveLength(2);
  });
});

describe('a number of ranks to reshard to', () => {
  const parameters: readonly ParameterSpec[] = [
    { name: '0.weight', shape: [8, 8], dtype: 'f32', requiresGrad: true },
  ];
  const planned = (reshardAfterForward: number | boolean): string[] =>
    fsdp({ reshardAfterForward })
      .plan(parameters, [{ name: 'dp', size: 4 }])
      .collectives.filter(({ when }) => when === 'backward')
      .map(({ operation, axis }) => `${operation} ${axis}`);

  it('has backward collect within groups of that size', () => {
    expect(planned(2)).toEqual(['allGather dp/2', 'reduceScatter dp']);
  });

  it('is true for all ranks and false for one', () => {
    expect(planned(4)).toEqual(planned(true));
    expect(planned(1)).toEqual(planned(false));
  });

  it.each([3, 0, -2, 1.5, 8, Number.NaN])('is refused where it is %d of 4', (ranks) => {
    expect(() => planned(ranks)).toThrow(LayoutError);
    expect(() => planned(ranks)).toThrow(/4 ranks/);
  });
});

it('names the axes that there are for an unknown one', async () => {
  for (const strategy of [fsdp({ axis: 'tp' }), fsdp({ replicas: 'hosts' })]) {
    const model = new Sequential(new Linear(2, 2));
    await expect(async () => parallelize(model, strategy)).rejects.toThrow(/the axes dp/);
  }
});
