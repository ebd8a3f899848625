import { cpu } from '@shardwise/backend-cpu';
import { createMesh, createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  ConfigError,
  hostPages,
  LayoutError,
  LineMesh,
  nn,
  ones,
  optim,
  type ParameterSpec,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  OffloadedOptimizer,
  ZeroRedundancyOptimizer,
  collectivesOf,
  compose,
  colwiseParallel,
  constructSharded,
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  pipeline,
  powerSgdHook,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

const strategies: Readonly<Record<string, () => Strategy>> = {
  'zero-1': () => zero({ stage: 1 }),
  'zero-2': () => zero({ stage: 2 }),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  ddp: () => ddp(),
  dataParallel: () => dataParallel(),
};
const names = Object.keys(strategies);
const strategyOf = (name: string): Strategy => strategies[name]?.() ?? fsdp();

/** A module that holds a list and has no forward pass. */
class Holder extends nn.Module {
  readonly extra = new nn.ModuleList([new nn.Linear(2, 2)]);

  /** Shape: x [B, 2] -> [B, 2]. */
  forward(x: Tensor): Tensor {
    return [...this.extra].reduce((y, layer) => layer.forward(y), x);
  }
}

describe.each(names)('a model that %s was applied to', (name) => {
  it.each(names)('is refused by %s, and goes on as it was', async (second) => {
    const model = new nn.Sequential(new nn.Linear(2, 2));
    const parallel = await parallelize(model, strategyOf(name));
    const refusal = parallelize(model, strategyOf(second));
    await expect(refusal).rejects.toThrow(ConfigError);
    await expect(refusal).rejects.toThrow(
      /(0\.weight is a part already|(ddp|dataParallel) averages the gradient of parameter 0\.weight already): a strategy was applied to this model before\. Apply one/,
    );
    const styles = tensorParallel({ '0': colwiseParallel() }, { axis: 'dp' });
    await expect(parallelize(model, styles)).rejects.toThrow(/was applied to this model before/);
    parallel
      .forward(ones([1, 2]))
      .sum()
      .backward();
    expect(model.parameters().every(({ grad }) => grad !== null)).toBe(true);
  });
});

describe('a model that was constructed in parts', () => {
  it.each(['ddp', 'dataParallel'])(
    'is refused by %s, which keeps whole parameters',
    async (name) => {
      const model = constructSharded(() => new nn.Sequential(new nn.Linear(3, 2)), fsdp());
      const refusal = parallelize(model, strategyOf(name));
      await expect(refusal).rejects.toThrow(ConfigError);
      await expect(refusal).rejects.toThrow(
        /parameter 0\.weight of shape \[2, 3\] as replicate, by \w+: it was constructed in parts.*Give constructSharded the strategy that the model is parallelized with/,
      );
    },
  );
});

describe('a model that takes a strategy again', () => {
  it('a model that takes a strategy again is one whose averaging was taken off', async () => {
    const model = new nn.Sequential(new nn.Linear(2, 2));
    const first = await parallelize(model, ddp());
    const parallel = await parallelize(first.detach(), fsdp());
    expect(parallel.module).toBe(model);
  });

  it('a model that takes a strategy again is not one that holds a model of another strategy', async () => {
    const inner = new nn.Sequential(new nn.Linear(2, 2));
    await parallelize(inner, ddp());
    const outer = new nn.Sequential(new nn.Linear(2, 2), inner);
    for (const strategy of [ddp(), fsdp(), zero({ stage: 1 })]) {
      await expect(parallelize(outer, strategy)).rejects.toThrow(/parameter 1\.0\.weight already/);
    }
    expect(outer.parameters().every(({ grad }) => grad === null)).toBe(true);
  });
});

describe('a ZeroRedundancyOptimizer', () => {
  it('a ZeroRedundancyOptimizer is refused beside parameters that are sharded', async () => {
    const model = new nn.Sequential(new nn.Linear(2, 2));
    await parallelize(model, fsdp());
    const make = (): unknown => new ZeroRedundancyOptimizer(model.parameters(), optim.AdamW);
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(/each rank of the axis has its own part.*Use a plain optimizer/);
  });
});

describe('options', () => {
  // The options that a program without type checks may pass.
  const makers: Readonly<Record<string, (options: object) => unknown>> = {
    ddp: (options) => ddp({ ...options }),
    fsdp: (options) => fsdp({ ...options }),
    zero: (options) => zero({ stage: 1, ...options }),
    tensorParallel: (options) => tensorParallel({}, { ...options }),
    dataParallel: (options) => dataParallel({ ...options }),
    powerSgdHook: (options) => powerSgdHook({ ...options }),
    mixedPrecision: (options) => fsdp({ mixedPrecision: { parameterDtype: 'bf16', ...options } }),
    OffloadedOptimizer: (options) => {
      const model = new nn.Linear(2, 2);
      const adam = new optim.AdamW(model.parameters());
      return new OffloadedOptimizer(model, adam, { states: hostPages(), ...options });
    },
  };

  it.each(Object.entries(makers))('of %s that there are not are refused by name', (name, make) => {
    expect(() => make({ bucketMegabytes: 25 })).toThrow(ConfigError);
    expect(() => make({ bucketMegabytes: 25 })).toThrow(
      new RegExp(
        `${name} with the option bucketMegabytes: no option of this name. (Use|Write) \\w+`,
      ),
    );
    expect(() => make({ bucketMegabytes: undefined })).not.toThrow();
  });

  const values: readonly (readonly [string, object, RegExp])[] = [
    ['ddp', { bucketBytes: 0 }, /bucketBytes: 0: a value that is not a number above 0/],
    ['ddp', { findUnusedParameters: 'yes' }, /findUnusedParameters: 'yes': .* not true or false/],
    ['fsdp', { findUnusedParameters: 1 }, /findUnusedParameters: 1: .* not true or false/],
    ['ddp', { commHook: {} }, /commHook: an object: .* not a function/],
    ['fsdp', { prefetch: -1 }, /prefetch: -1: .* not a whole number from 0/],
    ['fsdp', { axis: '' }, /not the name of a mesh axis/],
    ['fsdp', { replicas: 'dp' }, /over the mesh axis 'dp', in replicas over 'dp'/],
    ['fsdp', { mixedPrecision: 'bf16' }, /mixedPrecision: 'bf16': .* not an object/],
    ['fsdp', { mixedPrecision: {} }, /neither of them. Give computeDtype, parameterDtype, or both/],
    ['ddp', { mixedPrecision: { reduceDtype: 'bf16' } }, /neither of them/],
    [
      'ddp',
      { mixedPrecision: { computeDtype: 'bf16', reduceDtype: 'bf16' } },
      /computeDtype bf16 and parameterDtype f32: reduceDtype for parameters of f32. Give parameterDtype too/,
    ],
    [
      'mixedPrecision',
      { computeDtype: 'bf16', castForwardInputs: true },
      /castForwardInputs, with which every operation computes in parameterDtype. Leave one of them out/,
    ],
    ['mixedPrecision', { computeDtype: 'f16' }, /parameters that would be rounded twice/],
    ['mixedPrecision', { computeDtype: 'f32' }, /computeDtype: 'f32': .* one of f16, bf16/],
    [
      'tensorParallel',
      { mixedPrecision: { parameterDtype: 'bf16', computeDtype: 'bf16' } },
      /tensorParallel\(\), which stores and reduces in f32. Give the parameterDtype to ddp/,
    ],
    ['mixedPrecision', { parameterDtype: 'f32' }, /parameterDtype: 'f32': .* one of f16, bf16/],
    ['mixedPrecision', { reduceDtype: 'i32' }, /reduceDtype: 'i32': .* one of f16, bf16, f32/],
    ['mixedPrecision', { castForwardInputs: 1 }, /castForwardInputs: 1: .* not true or false/],
    ['mixedPrecision', { outputDtype: 'f64' }, /outputDtype: 'f64': .* one of f16, bf16, f32/],
    ['zero', { stage: 4 }, /stage: 4: .* not one of 1, 2, 3. Give one of 1, 2, 3$/m],
    ['zero', { stage: undefined }, /zero: no option stage. Give stage: one of 1, 2, 3/],
    ['OffloadedOptimizer', { states: undefined }, /no option states. Give states: an object/],
    ['OffloadedOptimizer', { chunkBytes: 0 }, /chunkBytes: 0: .* not a number above 0/],
  ];
  it.each(values)('of %s are refused with a value out of range: %o', (name, options, message) => {
    expect(() => makers[name]?.(options)).toThrow(message);
  });
});

describe('units that cannot be made', () => {
  const units = {
    'a name that no module has': { unitOf: () => 'layers.7', error: LayoutError },
    'a module without forward pass': { unitOf: () => 'extra', error: ConfigError },
  };

  it.each(Object.entries(units))(
    'are refused, leaving the model whole: %s',
    async (_, { unitOf, error }) => {
      const model = new Holder();
      const before = model.parameters();
      for (const strategy of [fsdp({ unitOf }), zero({ stage: 3, unitOf })]) {
        await expect(parallelize(model, strategy)).rejects.toThrow(error);
      }
      expect(model.parameters()).toEqual(before);
      const parallel = await parallelize(model, fsdp());
      expect(await parallel.forward(ones([1, 2])).data()).toHaveLength(2);
    },
  );
});

describe('a number of ranks to reshard to', () => {
  const parameters: readonly ParameterSpec[] = [
    { name: '0.weight', shape: [8, 8], dtype: 'f32', requiresGrad: true },
  ];
  const planned = (reshardAfterForward: number | boolean): string[] =>
    collectivesOf(fsdp({ reshardAfterForward }).plan({ parameters }, [{ name: 'dp', size: 4 }]))
      .filter(({ when }) => when === 'backward')
      .map(({ operation, axis }) => `${operation} ${axis}`);

  it('a number of ranks to reshard to has backward collect within groups of that size', () => {
    expect(planned(2)).toEqual(['allGather dp/2', 'reduceScatter dp']);
  });

  it('a number of ranks to reshard to is true for all ranks and false for one', () => {
    expect(planned(4)).toEqual(planned(true));
    expect(planned(1)).toEqual(planned(false));
  });

  it.each([3, 0, -2, 1.5, 8, Number.POSITIVE_INFINITY])(
    'is refused where it is %d of 4',
    (ranks) => {
      expect(() => planned(ranks)).toThrow(LayoutError);
      expect(() => planned(ranks)).toThrow(/4 ranks/);
    },
  );
});

it('refuses to find unused parameters in the stages of a pipeline', async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  const axes = ['dp', 'pp'].map((name) => ({ name, size: 1 }));
  const device = await cpu();
  setRank({ device, mesh: await createMesh(group, axes) });
  const model = new nn.Sequential(new nn.Linear(2, 2), new nn.Linear(2, 2));
  const strategy = compose(
    pipeline({
      schedule: 'interleaved1f1b',
      cut: ['1'],
      microbatches: 2,
      loss: (y: Tensor) => y.mean(),
    }),
    zero({ stage: 1, findUnusedParameters: true }),
  );
  await expect(async () => parallelize(model, strategy)).rejects.toThrow(
    /findUnusedParameters.* a pipeline makes several passes of each/,
  );
  setRank({ device, mesh: new LineMesh('dp', group) });
});

it('names the axes that there are for an unknown one', async () => {
  for (const strategy of [fsdp({ axis: 'tp' }), fsdp({ replicas: 'hosts' })]) {
    const model = new nn.Sequential(new nn.Linear(2, 2));
    await expect(async () => parallelize(model, strategy)).rejects.toThrow(/the axes dp/);
  }
});
