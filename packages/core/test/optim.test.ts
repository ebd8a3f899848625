import { describeDifference, interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { optim } from '@shardwise/core';
import { Linear } from '../src/nn/layers/linear.ts';
import { Adagrad } from '../src/optim/adagrad.ts';
import { Adam, AdamW } from '../src/optim/adam.ts';
import type { AdamSettings } from '../src/optim/adam-rule.ts';
import { clipGradNorm, totalGradNorm } from '../src/optim/clip-grad-norm.ts';
import { Lamb } from '../src/optim/lamb.ts';
import { SGD, type SGDSettings } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import type { HostArray } from '../src/serialization/host-array.ts';
import { CheckpointError, ConfigError } from '../src/spec/errors.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { operationsOf } from './graph-support.ts';

beforeEach(() => setRank({ device: interpreter() }));

async function values(x: Tensor | null): Promise<number[]> {
  return x === null ? [] : Array.from(await x.data(), Number);
}

function leaf(...numbers: number[]): Tensor {
  return tensor(numbers).requiresGrad_();
}

/** A loss whose gradient at x is x - [1, 2, 3] times (step + 1), so that the gradient changes from step to step. */
function lossAt(x: Tensor, step: number): Tensor {
  return x
    .sub(tensor([1, 2, 3]))
    .square()
    .sum()
    .mul((step + 1) / 2);
}

interface Optimizes {
  step(): Promise<boolean>;
  zeroGrad(): void;
}

async function train(x: Tensor, optimizer: Optimizes, steps: number, first = 0): Promise<number[]> {
  for (let step = first; step < first + steps; step++) {
    optimizer.zeroGrad();
    lossAt(x, step).backward();
    await optimizer.step();
  }
  return values(x);
}

const start = [0.5, -1, 2];

/** Runs the formulas of torch.optim in f64. `update` computes one step of one element from its gradient. */
function reference(
  steps: number,
  make: () => (x: number, gradient: number, step: number) => number,
): number[] {
  return start.map((first, i) => {
    const update = make();
    let x = first;
    for (let step = 0; step < steps; step++) x = update(x, (x - (i + 1)) * (step + 1), step);
    return x;
  });
}

function sgd(
  steps: number,
  { lr, momentum, dampening, nesterov, weightDecay }: SGDSettings,
): number[] {
  return reference(steps, () => {
    let buffer: number | undefined;
    return (x, gradient) => {
      const g = gradient + weightDecay * x;
      buffer = buffer === undefined ? g : momentum * buffer + (1 - dampening) * g;
      if (momentum === 0) return x - lr * g;
      return x - lr * (nesterov ? g + momentum * buffer : buffer);
    };
  });
}

function adam(steps: number, settings: AdamSettings, decoupled: boolean): number[] {
  const {
    lr,
    betas: [beta1, beta2],
    eps,
    weightDecay,
  } = settings;
  return reference(steps, () => {
    let [m, v] = [0, 0];
    return (x, gradient, step) => {
      const g = decoupled ? gradient : gradient + weightDecay * x;
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      const mean = m / (1 - beta1 ** (step + 1));
      const square = v / (1 - beta2 ** (step + 1));
      const decayed = decoupled ? x * (1 - lr * weightDecay) : x;
      return decayed - (lr * mean) / (Math.sqrt(square) + eps);
    };
  });
}

describe('SGD follows torch.optim.SGD', () => {
  const plain: SGDSettings = {
    lr: 0.1,
    momentum: 0,
    dampening: 0,
    nesterov: false,
    weightDecay: 0,
    maximize: false,
  };
  test.each<[string, Partial<SGDSettings>]>([
    ['plain', {}],
    ['with weight decay', { weightDecay: 0.3 }],
    ['with momentum', { momentum: 0.9 }],
    ['with dampened momentum', { momentum: 0.9, dampening: 0.5 }],
    ['with nesterov', { momentum: 0.8, nesterov: true, weightDecay: 0.1 }],
  ])('%s', async (_, settings) => {
    const x = leaf(...start);
    const found = await train(x, new SGD([x], { ...plain, ...settings }), 5);
    expect(
      describeDifference(found, sgd(5, { ...plain, ...settings }), { rtol: 1e-5, atol: 1e-5 }),
    ).toBeUndefined();
  });

  test('whose first momentum is undamped, also if momentum is switched on later', async () => {
    const x = leaf(...start);
    const optimizer = new SGD([x], { lr: 0.1, dampening: 0.5 });
    await train(x, optimizer, 1);
    for (const group of optimizer.paramGroups) group.momentum = 0.9;
    const found = await train(x, optimizer, 2, 1);
    // Of torch.optim.SGD.
    expect(describeDifference(found, [0.775, 0.65, 2.55], { rtol: 1e-5 })).toBeUndefined();
  });

  test('whose state survives loading at another learning rate (PyTorch test_zero_redundancy_optimizer)', async () => {
    const x = leaf(1);
    const saved = new SGD([x], { lr: 0.1, momentum: 0.9 });
    const step = async (optimizer: SGD): Promise<void> => {
      optimizer.zeroGrad();
      x.sum().backward();
      await optimizer.step();
    };
    await step(saved);
    expect(await values(x)).toEqual([Math.fround(0.9)]);
    const loaded = new SGD([x], { lr: 0.01, momentum: 0.9 });
    loaded.loadStateDict(await saved.stateDict());
    expect(loaded.paramGroups[0]?.lr).toBe(0.1);
    await step(loaded);
    expect(describeDifference(await values(x), [0.71], { rtol: 1e-6 })).toBeUndefined();
    const { state } = await loaded.stateDict();
    expect(
      new Float32Array(state[0]?.['momentum_buffer']?.bytes.buffer ?? new ArrayBuffer(0)),
    ).toEqual(Float32Array.of(1.9));
  });
});

test('the sum of squares of Adagrad begins with its initial value once, also if a state before the first step is loaded', async () => {
  const settings = { lr: 0.1, initialAccumulatorValue: 0.5 };
  const own = leaf(...start);
  const expected = await train(own, new Adagrad([own], settings), 2);
  const x = leaf(...start);
  const optimizer = new Adagrad([x], settings);
  const array = (shape: readonly number[], ...numbers: number[]): HostArray => {
    return { shape, dtype: 'f32', bytes: new Uint8Array(Float32Array.from(numbers).buffer) };
  };
  // PyTorch saves the initial sum of a parameter that has not been updated.
  const state = { 0: { step: array([], 0), sum: array([3], 0.5, 0.5, 0.5) } };
  const { paramGroups } = await optimizer.stateDict();
  optimizer.loadStateDict({ state, paramGroups });
  expect(await train(x, optimizer, 2)).toEqual(expected);
});

describe('settings', () => {
  test('that are undefined are those of the optimizer, in groups as in its options', () => {
    const settings = { lr: undefined, momentum: 0.5 } as never;
    const group = { params: [leaf(1)], lr: undefined } as never;
    const [first, second] = new SGD([group, { params: [leaf(1)], lr: 2 }], settings).paramGroups;
    expect([first?.lr, first?.momentum, second?.lr]).toEqual([1e-3, 0.5, 2]);
  });

  test.each([
    [
      'of another optimizer',
      { lr: 1, betas: [0, 0] },
      /settings of SGD, which are lr, momentum.*: betas \[0, 0\]\. Load/,
    ],
    ['of another kind', { lr: '1' }, /: lr '1'\. Load the state of an optimizer of the same class/],
    ['under names of PyTorch', { weight_decay: 1 }, /: weight_decay 1\. Load/],
  ])('%s are not loaded, and nothing changes', async (_, wrong, says) => {
    const optimizer = new SGD([leaf(1)], { lr: 0.1 });
    const saved = await optimizer.stateDict();
    const group = { ...saved.paramGroups[0], ...wrong } as never;
    expect(() => optimizer.loadStateDict({ ...saved, paramGroups: [group] })).toThrow(
      CheckpointError,
    );
    expect(() => optimizer.loadStateDict({ ...saved, paramGroups: [group] })).toThrow(says);
    expect(await optimizer.stateDict()).toEqual(saved);
  });

  test('out of range are refused by the next step, whoever has set them', async () => {
    const x = leaf(1);
    const optimizer = new SGD([x], { lr: 0.1 });
    const [group] = optimizer.paramGroups;
    x.sum().backward();
    if (group !== undefined) group.lr = Number.NaN;
    await expect(optimizer.step()).rejects.toThrow(
      'an optimizer with lr: NaN: a value that is not a number in [0, Infinity)',
    );
    if (group !== undefined) group.lr = '0.1' as never;
    await expect(optimizer.step()).rejects.toThrow(
      "an optimizer with lr: '0.1': a value that is not a number in [0, Infinity). Give",
    );
    if (group !== undefined) group.lr = 1;
    await optimizer.step();
    expect(await values(x)).toEqual([0]);
  });
});

describe.each([
  ['Adam', Adam, false],
  ['AdamW', AdamW, true],
] as const)('%s', (_, Optimizer, decoupled) => {
  const plain: AdamSettings = {
    lr: 0.1,
    betas: [0.9, 0.999],
    eps: 1e-8,
    weightDecay: 0,
    amsgrad: false,
    maximize: false,
  };
  test.each<[string, Partial<AdamSettings>]>([
    ['plain', {}],
    ['with weight decay', { weightDecay: 0.1 }],
    ['with other betas and eps', { betas: [0.5, 0.7], eps: 0.1, weightDecay: 0.01 }],
  ])('follows the paper %s', async (_, settings) => {
    const x = leaf(...start);
    const found = await train(x, new Optimizer([x], { ...plain, ...settings }), 6);
    const expected = adam(6, { ...plain, ...settings }, decoupled);
    expect(describeDifference(found, expected, { rtol: 1e-5, atol: 1e-5 })).toBeUndefined();
  });

  test('keeps step, exp_avg and exp_avg_sq, as PyTorch names them', async () => {
    const x = leaf(...start);
    const optimizer = new Optimizer([x]);
    await train(x, optimizer, 3);
    const { state, paramGroups } = await optimizer.stateDict();
    expect(Object.keys(state['0'] ?? {})).toEqual(['step', 'exp_avg', 'exp_avg_sq']);
    expect(new Float32Array(state['0']?.['step']?.bytes.buffer ?? new ArrayBuffer(0))).toEqual(
      Float32Array.of(3),
    );
    expect(paramGroups).toEqual([
      {
        lr: 1e-3,
        betas: [0.9, 0.999],
        eps: 1e-8,
        weightDecay: decoupled ? 0.01 : 0,
        amsgrad: false,
        maximize: false,
        params: [0],
      },
    ]);
  });

  test('keeps max_exp_avg_sq, too, with amsgrad', async () => {
    const x = leaf(...start);
    const optimizer = new Optimizer([x], { amsgrad: true });
    await train(x, optimizer, 1);
    const { state } = await optimizer.stateDict();
    const { max_exp_avg_sq: largest, exp_avg_sq: latest, ...others } = state['0'] ?? {};
    expect(Object.keys(others)).toEqual(['step', 'exp_avg']);
    expect(largest).toEqual(latest);
  });

  test.each<[string, Partial<AdamSettings>]>([
    ['', {}],
    [' of amsgrad', { amsgrad: true, betas: [0.9, 0.5] }],
  ])('continues from a saved state%s with the same bits', async (_name, settings) => {
    const x = leaf(...start);
    const whole = await train(x, new Optimizer([x], { ...plain, ...settings }), 6);
    const y = leaf(...start);
    const first = new Optimizer([y], { ...plain, ...settings });
    const half = fromData(Float32Array.from(await train(y, first, 3)), [3], 'f32').requiresGrad_();
    const second = new Optimizer([half], plain);
    second.loadStateDict(await first.stateDict());
    expect(await train(half, second, 3, 3)).toEqual(whole);
  });
});

test('an AdamW update reads and writes each element once: 14 elementwise ops, no copies', async () => {
  const x = leaf(...start);
  const optimizer = new AdamW([x]);
  lossAt(x, 0).backward();
  await x.grad?.realize();
  const step = optimizer.step();
  const operations = operationsOf(x).filter(
    (op) => !['input', 'assign', 'expand', 'reshape'].includes(op),
  );
  await step;
  expect(operations).toEqual([
    'add',
    'add',
    'add',
    'div',
    'div',
    'mul',
    'mul',
    'mul',
    'mul',
    'mul',
    'mul',
    'sqrt',
    'sub',
    'sub',
  ]);
});

describe('parameter groups', () => {
  test('have settings of their own, and the optimizer’s for the rest', async () => {
    const [x, y] = [leaf(1), leaf(1)];
    const optimizer = new SGD([{ params: [x], lr: 0.5 }, { params: [y] }], { lr: 0.1 });
    x.add(y).sum().backward();
    await optimizer.step();
    expect(await values(x)).toEqual([0.5]);
    expect(await values(y)).toEqual([Math.fround(0.9)]);
  });

  test('can be added, with parameters that are in no other', async () => {
    const [x, y] = [leaf(1), leaf(1)];
    const optimizer = new SGD([x], { lr: 1 });
    optimizer.addParamGroup({ params: [y], lr: 0.25 });
    x.add(y).sum().backward();
    await optimizer.step();
    expect([await values(x), await values(y)]).toEqual([[0], [0.75]]);
    expect(() => optimizer.addParamGroup({ params: [x] })).toThrow(ConfigError);
  });

  test('must have parameters, each once, and settings in range', () => {
    const x = leaf(1);
    expect(() => new SGD([])).toThrow(ConfigError);
    expect(() => new SGD([x, x])).toThrow('1 parameters that stand twice');
    expect(() => new SGD([x], { lr: -1 })).toThrow('lr: -1');
    expect(() => new SGD([x], { nesterov: true })).toThrow(ConfigError);
    expect(() => new Adam([x], { betas: [0.9, 1] })).toThrow('beta2: 1');
    expect(() => new AdamW([x], { lr: Number.NaN })).toThrow(ConfigError);
  });
});

describe('the name of a class of optimizers', () => {
  test('is that of its export, whatever a minifier makes of it', () => {
    const classes = Object.entries(optim).filter(
      ([, value]) => typeof value === 'function' && value.prototype instanceof optim.Optimizer,
    );
    expect(classes.length).toBeGreaterThan(10);
    for (const [name, made] of classes) expect(Reflect.get(made, 'typeName')).toBe(name);
  });

  test('is its own where it extends another one, whose rule it may change', () => {
    class Faster extends AdamW {}
    expect([new AdamW([leaf(1)]).typeName, new Faster([leaf(1)]).typeName]).toEqual([
      'AdamW',
      'Faster',
    ]);
  });
});

describe('step', () => {
  test('leaves parameters without a gradient and their state alone', async () => {
    const [x, y] = [leaf(1), leaf(5)];
    const optimizer = new AdamW([x, y]);
    x.sum().backward();
    await optimizer.step();
    expect(await values(y)).toEqual([5]);
    expect(Object.keys((await optimizer.stateDict()).state)).toEqual(['0']);
    expect(optimizer.stateOf(y)).toBeUndefined();
    expect(optimizer.stateOf(x)?.steps).toBe(1);
    expect([...(optimizer.stateOf(x)?.tensors.keys() ?? [])]).toEqual(['exp_avg', 'exp_avg_sq']);
  });

  test('computes the loss in the same run', async () => {
    const x = leaf(...start);
    const optimizer = new SGD([x], { lr: 0.1 });
    const loss = lossAt(x, 0);
    loss.backward();
    await optimizer.step();
    expect(loss.node.value).not.toBeNull();
    expect(await loss.item()).toBe((0.25 + 9 + 1) / 2);
  });
});

test('an optimizer loads a state of another class whose switches it lacks if they are off', async () => {
  const x = leaf(...start);
  const adam = new AdamW([x], { lr: 0.1 });
  await train(x, adam, 1);
  const lamb = new Lamb([x]);
  lamb.loadStateDict(await adam.stateDict());
  expect(lamb.paramGroups).toEqual([
    { lr: 0.1, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0.01, params: [x] },
  ]);
  for (const group of adam.paramGroups) group.maximize = true;
  const ascending = await adam.stateDict();
  expect(() => lamb.loadStateDict(ascending)).toThrow('maximize true');
});

describe('loading refuses', () => {
  test('another number of parameters, and another shape, before anything changes', async () => {
    const [x, y] = [leaf(...start), leaf(1)];
    const optimizer = new AdamW([x]);
    await train(x, optimizer, 2);
    const dict = await optimizer.stateDict();
    const other = new AdamW([y], { lr: 0.5 });
    expect(() => other.loadStateDict(dict)).toThrow(CheckpointError);
    expect(other.paramGroups[0]?.lr).toBe(0.5);
    expect(() => new AdamW([x, y]).loadStateDict(dict)).toThrow('groups of 1 parameters');
    expect(() => optimizer.loadStateDict({ ...dict, state: { 7: {} } })).toThrow('parameter 7');
  });
});

describe('clipGradNorm', () => {
  async function gradients(
    maxNorm: number,
    normType: number,
  ): Promise<{ norm: number; found: number[] }> {
    const [x, y] = [leaf(3, 0), leaf(4)];
    x.square().sum().add(y.square().sum()).mul(0.5).backward();
    const norm = clipGradNorm([x, y, leaf(9)], maxNorm, { normType });
    return {
      norm: await norm.item(),
      found: [...(await values(x.grad)), ...(await values(y.grad))],
    };
  }

  test('scales all gradients by one factor where their norm is above the limit', async () => {
    const { norm, found } = await gradients(1, 2);
    expect(norm).toBe(5);
    expect(describeDifference(found, [0.6, 0, 0.8], { rtol: 1e-5 })).toBeUndefined();
  });

  test('leaves them where it is below', async () => {
    expect(await gradients(6, 2)).toEqual({ norm: 5, found: [3, 0, 4] });
  });

  test('takes the largest absolute value as norm', async () => {
    const { norm, found } = await gradients(2, Number.POSITIVE_INFINITY);
    expect(norm).toBe(4);
    expect(describeDifference(found, [1.5, 0, 2], { rtol: 1e-5 })).toBeUndefined();
  });

  // (3 ** p + 4 ** p) ** (1 / p), which is that of torch.nn.utils.clip_grad_norm_.
  test.each([
    [1, 7],
    [3, 4.497_941_4],
    [0.5, 13.928_203],
    [200, 4],
  ])('takes the p-norm for p = %d', async (normType, expected) => {
    const { norm, found } = await gradients(1, normType);
    expect(describeDifference([norm], [expected], { rtol: 1e-6 })).toBeUndefined();
    const scaled = [3 / expected, 0, 4 / expected];
    expect(describeDifference(found, scaled, { rtol: 1e-5 })).toBeUndefined();
  });

  test.each([1e-20, 1e20])(
    'takes the p-norm of gradients of %d, whose powers are beyond f32',
    async (unit) => {
      const [x, y] = [leaf(3), leaf(4)];
      x.add(y.div(3).mul(4)).mul(unit).sum().backward();
      const norm = await totalGradNorm([x, y], { normType: 3 }).item();
      expect(norm / unit).toBeCloseTo((1 + (4 / 3) ** 3) ** (1 / 3), 5);
    },
  );

  test.each([1, 2, 3, Number.POSITIVE_INFINITY])(
    'is not finite for p = %d where a gradient is not',
    async (normType) => {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const [x, y] = [leaf(1), leaf(1)];
        x.mul(value).add(y).sum().backward();
        const optimizer = new SGD([x, y], { lr: 1 });
        const norm = clipGradNorm([x, y], 1, { normType });
        expect(await optimizer.step({ skipIf: norm.isFinite().logicalNot() })).toBe(false);
        expect(await norm.item()).toBe(value);
        expect([await x.item(), await y.item()]).toEqual([1, 1]);
      }
    },
  );

  test('counts a gradient without elements as 0 in any norm', async () => {
    for (const normType of [1, 2, 3, Number.POSITIVE_INFINITY]) {
      const [x, empty] = [leaf(3), fromData(new Float32Array(0), [0, 2], 'f32').requiresGrad_()];
      const norms = [[x, empty], [empty]].map((parameters) => {
        for (const parameter of parameters) parameter.zeroGrad();
        x.square().mul(0.5).sum().add(empty.mul(2).sum()).backward();
        return clipGradNorm(parameters, 10, { normType });
      });
      expect(await Promise.all(norms.map((norm) => norm.item()))).toEqual([3, 0]);
      expect(await values(empty.grad)).toEqual([]);
    }
  });

  test('gives a norm that is computed with the step and can be read after it', async () => {
    const x = leaf(3, 4);
    const optimizer = new SGD([x], { lr: 1 });
    x.square().sum().mul(0.5).backward();
    const norm = clipGradNorm([x], 2.5);
    await optimizer.step();
    expect(await norm.item()).toBe(5);
    expect(describeDifference(await values(x), [1.5, 2], { rtol: 1e-5 })).toBeUndefined();
  });

  test('of no gradients is 0', async () => {
    expect(await totalGradNorm([leaf(1)]).item()).toBe(0);
  });

  test('refuses other norms and negative limits', () => {
    for (const normType of [0, -1, Number.NEGATIVE_INFINITY, Number.NaN]) {
      expect(() => totalGradNorm([leaf(1)], { normType })).toThrow(ConfigError);
    }
    expect(() => clipGradNorm([leaf(1)], -1)).toThrow(ConfigError);
    for (const limit of ['0.001', null, undefined, Number.NaN]) {
      expect(() => clipGradNorm([leaf(1)], limit as never)).toThrow(ConfigError);
    }
    expect(() => clipGradNorm([leaf(1)], '0.001' as never)).toThrow(
      "gradients clipped to norm '0.001': no number. Use a number of at least 0",
    );
  });

  test('says what it takes where it is given a model, or parameters by name', () => {
    const model = new Linear(2, 2);
    expect(() => clipGradNorm(model as never, 1)).toThrow(ConfigError);
    expect(() => clipGradNorm(model as never, 1)).toThrow(
      'clipGradNorm: a Linear where parameters are expected. Pass model.parameters(), or a list of tensors',
    );
    expect(() => clipGradNorm(model.namedParameters() as never, 1)).toThrow(ConfigError);
    expect(() => totalGradNorm(model as never)).toThrow(ConfigError);
  });
});

test('a model learns the plane that its data lie on', async () => {
  const model = new Linear(2, 1);
  const optimizer = new AdamW(model.parameters(), { lr: 0.1, weightDecay: 0 });
  const x = tensor([
    [0, 0],
    [1, 0],
    [0, 1],
    [1, 1],
  ]);
  const y = tensor([[1], [3], [0], [2]]);
  let loss = Number.NaN;
  for (let step = 0; step < 200; step++) {
    optimizer.zeroGrad();
    const error = model.forward(x).sub(y).square().mean();
    error.backward();
    await optimizer.step();
    loss = await error.item();
  }
  expect(loss).toBeLessThan(1e-3);
});
