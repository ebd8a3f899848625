import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import * as optim from '../src/optim.ts';
import { BatchNorm1d } from '../src/nn/norm/batch-norm-layers.ts';
import { Module } from '../src/nn/module/module.ts';
import { Parameter } from '../src/nn/parameter/parameter.ts';
import { setRank } from '../src/rank.ts';
import { elementCount } from '../src/base/shape.ts';
import type { Shape } from '../src/spec/dtype.ts';
import { CheckpointError, ConfigError, TensorStateError } from '../src/spec/errors.ts';
import { tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { golden, waves, worstDifference } from './golden/library.ts';

beforeEach(() => setRank({ device: interpreter() }));

const shapes: Readonly<Record<string, Shape>> = {
  matrix: [6, 4],
  wide: [3, 7],
  vector: [5],
  cube: [2, 3, 4],
};
const steps = 20;

/** The parameters and the loss of tools/library/optimizers.py. */
class Model extends Module {
  readonly names: readonly string[];

  constructor(names: readonly string[]) {
    super();
    this.names = names;
    for (const [offset, name] of names.entries()) {
      const shape = shapes[name] ?? [];
      const values = Float32Array.from({ length: elementCount(shape) }, (_, at) => {
        const i = at + offset;
        return ((((i * i * 29 + i * 53) % 4099) % 128) - 64) / 64;
      });
      Reflect.set(this, name, new Parameter(values, shape));
    }
  }

  loss(step: number): Tensor {
    const terms = this.parameters().map((parameter, index) => {
      const factors = waves(parameter.shape, 31 * step + index);
      const targets = waves(parameter.shape, 17 * step + 5);
      return parameter
        .mul(factors)
        .sub(targets)
        .square()
        .sum()
        .mul((index + 1) / 4);
    });
    return terms.reduce((sum, term) => sum.add(term));
  }
}

async function train(
  model: Model,
  optimizer: optim.Optimizer,
  after: (step: number) => void = () => {},
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = model.loss(step);
    // What is maximized is the opposite of the loss, which has a maximum.
    const ascends = optimizer.paramGroups.some((group) => Reflect.get(group, 'maximize') === true);
    (ascends ? loss.neg() : loss).backward();
    await optimizer.step();
    after(step);
    losses.push(await loss.item());
  }
  return losses;
}

async function numbers(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

const kinds: Readonly<Record<string, new (params: Tensor[], settings: never) => optim.Optimizer>> =
  {
    SGD: optim.SGD,
    Adam: optim.Adam,
    AdamW: optim.AdamW,
    RMSprop: optim.RMSprop,
    Adagrad: optim.Adagrad,
    Adafactor: optim.Adafactor,
    Lion: optim.Lion,
    Muon: optim.Muon,
    'Muon rounded to bfloat16': optim.Muon,
  };

describe('20 steps are PyTorch’s, or those of the paper', () => {
  test.each(golden.optimizers.map((each, i) => [i, each.optimizer, each] as const))(
    '%i: %s',
    async (_, name, { settings, losses, parameters }) => {
      const model = new Model(Object.keys(parameters));
      const kind = kinds[name];
      if (kind === undefined) throw new RangeError(name);
      const optimizer = new kind(model.parameters(), settings as never);
      // PyTorch's Muon rounds its updates to bf16, which has 8 significant bits.
      const rtol = name === 'Muon rounded to bfloat16' ? 2e-2 : 2e-5;
      const found = await train(model, optimizer);
      expect(worstDifference(found, losses, { rtol })).toBeLessThan(1);
      for (const [key, parameter] of model.namedParameters()) {
        const text = parameters[key] ?? '';
        expect(worstDifference(await numbers(parameter), text, { rtol }), key).toBeLessThan(1);
      }
    },
  );

  test.each(golden.averages)(
    'the average of weights: $average',
    async ({ average, parameters }) => {
      const model = new Model(Object.keys(parameters));
      const decay = average === 'equal' ? {} : { decay: Number(average) };
      const averaged = new optim.AveragedWeights(model, decay);
      const optimizer = new optim.SGD(model.parameters(), { lr: 0.05 });
      await train(model, optimizer, (step) => {
        if (step % 2 === 1) averaged.update();
      });
      const { updates, weights } = await averaged.stateDict();
      expect(updates).toBe(steps / 2);
      const before = await model.stateDict();
      await averaged.use(async () => {
        for (const [key, parameter] of model.namedParameters()) {
          const text = parameters[key] ?? '';
          expect(worstDifference(await numbers(parameter), text), key).toBeLessThan(1);
          expect(weights[key]?.bytes).toEqual((await model.stateDict())[key]?.bytes);
        }
      });
      expect(await model.stateDict()).toEqual(before);
      await averaged.apply();
      expect(Object.values(await model.stateDict())).toEqual(Object.values(weights));
    },
  );

  test.each(golden.plateaus)(
    'ReduceLROnPlateau $settings',
    async ({ settings, metrics, rates }) => {
      const optimizer = { paramGroups: [{ lr: 0.1 }, { lr: 1 }] };
      const plateau = new optim.ReduceLROnPlateau(optimizer, settings);
      for (const [step, metric] of metrics.entries()) {
        await plateau.step(step % 2 === 0 ? metric : tensor([metric]).to('f32'));
        expect(plateau.learningRates, `step ${step}`).toEqual(rates[step]);
      }
    },
  );

  test.each(golden.oneCycles)(
    'OneCycleScheduler of $optimizer, $settings',
    ({ optimizer: name, settings, rates, momenta }) => {
      const groups = [{ params: [tensor([0])] }, { params: [tensor([0])] }];
      const { [name]: Kind } = optim;
      const optimizer = new Kind(groups);
      const cycle = new optim.OneCycleScheduler(optimizer, settings as never);
      rates.forEach((expected, step) => {
        if (step > 0) cycle.step();
        cycle.learningRates.forEach((rate, group) => {
          expect(rate, `step ${step}`).toBeCloseTo(expected[group] ?? NaN, 12);
        });
        for (const [group, each] of optimizer.paramGroups.entries()) {
          const momentum = 'betas' in each ? each.betas[0] : 'momentum' in each ? each.momentum : 0;
          expect(momentum, `step ${step}`).toBeCloseTo(momenta[step]?.[group] ?? NaN, 12);
        }
      });
    },
  );
});

describe('SWALR', () => {
  test.each(golden.swaRates)('$settings', ({ settings, rates }) => {
    // Another scheduler has lowered the learning rates 0.1 and 1 to these.
    const optimizer = { paramGroups: [{ lr: 0.025 }, { lr: 0.25 }] };
    let swa = new optim.SWALR(optimizer, settings);
    rates.forEach((expected, step) => {
      swa.learningRates.forEach((rate, group) => {
        expect(rate, `step ${step}`).toBeCloseTo(expected[group] ?? NaN, 12);
      });
      const state = swa.stateDict();
      swa = new optim.SWALR(optimizer, settings);
      swa.loadStateDict(state);
      if (step === 3) for (const group of optimizer.paramGroups) group.lr *= 0.5;
      else swa.step();
    });
  });

  test('refuses other numbers of learning rates than groups, and states that are none', () => {
    const optimizer = { paramGroups: [{ lr: 1 }] };
    expect(() => new optim.SWALR(optimizer, { swaLr: [1, 2] })).toThrow('2 numbers as swaLr');
    const swa = new optim.SWALR(optimizer, { swaLr: 1 });
    expect(() => swa.loadStateDict({ step: -1 })).toThrow('step -1');
  });
});

const trained = (...values: number[]): Tensor => tensor(values).requiresGrad_();

describe('clipGradValue', () => {
  test('brings each element into the interval, and leaves what is inside and NaN', async () => {
    const x = trained(1, 2, 3, 4, 5);
    x.mul(tensor([-3, 0.5, 1, 7, Number.NaN]))
      .sum()
      .backward();
    optim.clipGradValue([x], 1);
    expect([...((await x.grad?.data()) ?? [])]).toEqual([-1, 0.5, 1, 1, Number.NaN]);
  });

  test('refuses what is no limit', () => {
    expect(() => optim.clipGradValue([trained(1)], -1)).toThrow(
      'clipGradValue with clipValue: -1: a value that is not a number from 0',
    );
  });
});

describe('optimizers refuse', () => {
  const bad: readonly (readonly [string, () => unknown, string])[] = [
    [
      'a vector for Muon',
      () => new optim.Muon([trained(1, 2)]),
      'Muon of a parameter of shape [2]',
    ],
    [
      'a vector in a group that Muon is given later',
      () => new optim.Muon([tensor([[1]])]).addParamGroup({ params: [trained(1, 2)], lr: 1 }),
      'Muon of a parameter of shape [2]',
    ],
    [
      'an adjustment that Muon does not know',
      () => new optim.Muon([tensor([[1, 2]])], { adjustLrFn: 'match_rms_adamw' as never }),
      'one of original, matchRmsAdamW, spectralUnclamped',
    ],
    [
      'a momentum cycle of an optimizer that has none',
      () =>
        new optim.OneCycleScheduler(new optim.Adagrad([trained(1)]), { maxLr: 1, totalSteps: 3 }),
      'Pass cycleMomentum: false',
    ],
    [
      'a factor that makes learning rates larger',
      () => new optim.ReduceLROnPlateau({ paramGroups: [{ lr: 1 }] }, { factor: 2 }),
      'ReduceLROnPlateau with factor: 2',
    ],
    [
      'least learning rates of other groups',
      () => new optim.ReduceLROnPlateau({ paramGroups: [{ lr: 1 }] }, { minLr: [0, 0] }),
      '2 numbers as minLr',
    ],
    ['a decay above 1', () => new optim.AveragedWeights(new Model([]), { decay: 2 }), 'decay: 2'],
  ];
  test.each(bad)('%s', (_, make, says) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(says);
  });

  test('parameters of fewer bits, which the sums of small updates would be lost in', async () => {
    const parameter = new Parameter(new Uint16Array(2), [2], { dtype: 'bf16' });
    parameter.sum().backward();
    await expect(new optim.AdamW([parameter]).step()).rejects.toThrow(
      'the update rule of AdamW for a parameter of shape [2]: it computes in f32, not in bf16',
    );
  });

  test('steps after the end of a cycle', () => {
    const optimizer = new optim.SGD([trained(1)]);
    const cycle = new optim.OneCycleScheduler(optimizer, { maxLr: 1, totalSteps: 1 });
    cycle.step();
    expect(() => cycle.step()).toThrow('a cycle of 1 steps');
  });
});

describe('states that went through JSON are gone on from', () => {
  const json = <T>(value: T): T => JSON.parse(JSON.stringify(value));

  test('of a plateau', async () => {
    const optimizer = { paramGroups: [{ lr: 1 }] };
    const [first, second] = [0, 1].map(
      () => new optim.ReduceLROnPlateau(optimizer, { patience: 1 }),
    );
    second?.loadStateDict(json(second.stateDict()));
    for (const metric of [3, 4]) await first?.step(metric);
    second?.loadStateDict(json(first?.stateDict() ?? { best: 0, badSteps: 0, cooldownLeft: 0 }));
    await second?.step(5);
    expect(optimizer.paramGroups).toEqual([{ lr: 0.1 }]);
    expect(() => second?.loadStateDict({ best: 1, badSteps: -1, cooldownLeft: 0 })).toThrow(
      CheckpointError,
    );
  });

  test('of a cycle', () => {
    const make = (): optim.OneCycleScheduler =>
      new optim.OneCycleScheduler(new optim.SGD([trained(1)]), { maxLr: 1, totalSteps: 9 });
    const [first, second] = [make(), make()];
    for (let step = 0; step < 5; step++) first.step();
    second.loadStateDict(json(first.stateDict()));
    expect(second.learningRates).toEqual(first.learningRates);
    expect(() => second.loadStateDict({ step: 10 })).toThrow(CheckpointError);
  });

  test('of an average of weights', async () => {
    const model = new Model(['vector']);
    const [first, second] = [0, 1].map(() => new optim.AveragedWeights(model, { decay: 0.5 }));
    if (first === undefined || second === undefined) throw new RangeError();
    first.update();
    await second.loadStateDict(await first.stateDict());
    for (const each of [first, second]) each.update();
    expect(await second.stateDict()).toEqual(await first.stateDict());
    const { weights } = await first.stateDict();
    await expect(second.loadStateDict({ updates: 1, weights: {} })).rejects.toThrow('vector');
    await expect(second.loadStateDict({ updates: -1, weights })).rejects.toThrow(CheckpointError);
  });
});

describe('an average of weights refuses', () => {
  test('its use before it has been updated', async () => {
    const averaged = new optim.AveragedWeights(new Model(['vector']));
    await expect(averaged.use(() => 0)).rejects.toThrow(TensorStateError);
    await expect(averaged.apply()).rejects.toThrow('no update yet');
  });

  test('updates while the model has it as its parameters', async () => {
    const averaged = new optim.AveragedWeights(new Model(['vector']));
    averaged.update();
    await expect(averaged.use(() => averaged.update())).rejects.toThrow("inside of 'use'");
  });

  test('a model that has got other parameters', () => {
    const model = new Model(['vector']);
    const averaged = new optim.AveragedWeights(model);
    averaged.update();
    Reflect.set(model, 'another', new Parameter(new Float32Array(1), [1]));
    expect(() => averaged.update()).toThrow("'another', which the model did not have");
  });
});

describe('updateBatchNorm', () => {
  const batches = [
    [1, 3],
    [5, 11],
  ].map((values) => tensor(values).reshape([2, 1]));

  test('makes running statistics those of all batches, and leaves modes and momenta', async () => {
    const norm = new BatchNorm1d(1);
    norm.forward(tensor([100, 300]).reshape([2, 1]));
    norm.eval();
    await optim.updateBatchNorm(norm, batches, (batch) => norm.forward(batch));
    expect(await norm.runningMean.item()).toBe(5);
    expect(await norm.runningVar.item()).toBe((2 + 18) / 2);
    expect(await norm.numBatchesTracked.item()).toBe(2);
    expect([norm.training, norm.momentum]).toEqual([false, 0.1]);
  });

  test('leaves them as they were where there are no batches, and says so', async () => {
    const norm = new BatchNorm1d(1);
    norm.forward(tensor([100, 300]).reshape([2, 1]));
    await expect(optim.updateBatchNorm(norm, [], () => 0)).rejects.toThrow('no batches');
    expect(await norm.runningMean.item()).toBe(20);
  });
});
