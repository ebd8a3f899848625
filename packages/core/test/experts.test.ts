import { readFileSync } from 'node:fs';
import {
  autocast,
  ConfigError,
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  statistics,
  tensor,
  type Tensor,
} from '@shardwise/core';
import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

/** The values that tools/golden-experts.py recorded. */
interface Golden {
  readonly k: number;
  readonly scores: 'softmax' | 'softmaxOfChosen' | 'sigmoid' | 'sqrtSoftplus';
  readonly normalize: 'none' | 'chosen';
  readonly activation: nn.ExpertActivation;
  readonly output: string;
  readonly balance: number;
  readonly z: number;
  readonly gradients: Readonly<Record<string, string>>;
}
const golden: readonly Golden[] = JSON.parse(
  readFileSync(new URL('./golden/experts.json', import.meta.url), 'utf8'),
);

const [features, hidden, count] = [6, 5, 4];

function wave(shape: readonly number[], phase: number, scale = 1): Float32Array<ArrayBuffer> {
  const length = shape.reduce((product, size) => product * size, 1);
  return Float32Array.from({ length }, (_, i) => scale * Math.sin(i * 1.7 + phase));
}

/** A layer with the weights of the recording. */
function layer(options: nn.MixtureOfExpertsOptions): nn.MixtureOfExperts {
  const made = new nn.MixtureOfExperts(features, hidden, count, options);
  const { experts, router } = made;
  router.weight.assign(fromData(wave([count, features], 1.1), [count, features], 'f32'));
  const fill = (parameter: nn.Parameter | null, phase: number): void => {
    const { shape } = parameter ?? router.weight;
    parameter?.assign(fromData(wave(shape, phase, 0.5), shape, 'f32'));
  };
  fill(experts.up, 2);
  fill(experts.down, 0.7);
  fill(experts.gate, 0.2);
  return made;
}

const input = (tokens = 12): Tensor =>
  fromData(wave([tokens, features], 0.3), [tokens, features], 'f32');

async function numbers(x: Tensor | null | undefined): Promise<number[]> {
  return Array.from((await x?.data()) ?? [], Number);
}

function expectNear(found: readonly number[], expected: readonly number[]): void {
  expect(found).toHaveLength(expected.length);
  found.forEach((x, index) => expect(x).toBeCloseTo(expected[index] ?? NaN, 5));
}

describe.each([
  ['cpu', cpu],
  ['the interpreter', async () => interpreter()],
])('a layer of experts, on %s', (_, create) => {
  beforeEach(async () => {
    setRank({ device: await create() });
    manualSeed(0);
  });

  it.each(golden)(
    'gives PyTorch’s results, losses and gradients with k $k of $scores and $activation',
    async ({ k, scores, normalize, activation, ...expected }) => {
      const moe = layer({
        gate: nn.topKGate({ k, scores, normalize }),
        activation,
        balance: { kind: 'megatron', coefficient: 0.1 },
        zLoss: 0.01,
      });
      const x = input().requiresGrad_();
      const output = moe.forward(x);
      const auxiliary = nn.auxiliaryLoss(moe);
      output.square().mean().add(auxiliary).backward();
      const texts = (text = ''): number[] => text.split(' ').map(Number);
      expectNear(await numbers(output), texts(expected.output));
      expect(await auxiliary.item()).toBeCloseTo(0.1 * expected.balance + 0.01 * expected.z, 5);
      const { experts, router } = moe;
      const leaves = { x, router: router.weight, up: experts.up, down: experts.down };
      for (const [name, leaf] of Object.entries(leaves)) {
        expectNear(await numbers(leaf.grad), texts(expected.gradients[name]));
      }
      if (experts.gate !== null) {
        expectNear(await numbers(experts.gate.grad), texts(expected.gradients.gate));
      }
    },
  );

  it('gives back its input where experts give back theirs, with dropping or without', async () => {
    const x = input();
    for (const gate of [nn.topKGate({ k: 2, normalize: 'chosen' }), nn.gshardGate()]) {
      const moe = new nn.MixtureOfExperts(features, hidden, count, { gate });
      moe.experts.forward = (rows) => rows;
      moe.eval();
      expectNear(await numbers(moe.forward(x)), await numbers(x));
    }
  });

  it('gives zeros for tokens that all experts drop, whose gradient is none', async () => {
    const gate = nn.switchGate({ capacity: { factor: 0.25 } });
    const x = tensor(Array.from({ length: 4 }, () => [1, 2, 3, 4, 5, 6])).requiresGrad_();
    const moe = layer({ gate });
    const output = moe.forward(x);
    output.sum().backward();
    const [rows, gradients] = [await numbers(output), await numbers(x.grad)];
    expect(rows.slice(0, 6).some((value) => value !== 0)).toBe(true);
    expect(rows.slice(6).every((value) => value === 0)).toBe(true);
    expect(gradients.slice(6).every((value) => value === 0)).toBe(true);
    expect(await moe.routerStatistics()).toMatchObject({ dropRate: 0.75, imbalance: 4 });
  });

  it('has zero gradients of experts without tokens', async () => {
    const moe = layer({ gate: nn.switchGate() });
    moe.forward(input(1)).sum().backward();
    const gradient = await numbers(moe.experts.up.grad);
    const size = features * hidden;
    const used = Array.from({ length: count }, (__, expert) =>
      gradient.slice(expert * size, (expert + 1) * size).some((value) => value !== 0),
    );
    expect(used.filter(Boolean)).toHaveLength(1);
    expect(gradient).toHaveLength(count * size);
  });

  it('takes no token at all', async () => {
    const moe = layer({});
    expect(await numbers(moe.forward(input(0)))).toEqual([]);
  });

  it('trains one plan, whatever tokens choose', async () => {
    const moe = layer({ balance: { kind: 'megatron', coefficient: 0.01 } });
    const optimizer = new optim.SGD(moe.parameters(), { lr: 0.5 });
    const made: number[] = [];
    const losses: number[] = [];
    for (let step = 0; step < 5; step++) {
      const before = statistics().plansMade;
      const x = fromData(wave([12, features], step), [12, features], 'f32');
      const loss = moe.forward(x).sub(x).square().mean();
      optimizer.zeroGrad();
      loss.add(nn.auxiliaryLoss(moe)).backward();
      await optimizer.step();
      losses.push(await loss.item());
      made.push(statistics().plansMade - before);
    }
    expect(made.slice(2)).toEqual([0, 0, 0]);
    expect(losses[4]).toBeLessThan(losses[0] ?? 0);
  });
});

describe('a layer of experts', () => {
  beforeEach(() => {
    setRank({ device: interpreter() });
    manualSeed(0);
  });

  it('adds a shared layer, and weighs a residual one by what it says of each token', async () => {
    const shared = new nn.Linear(features, features);
    const x = input();
    const [plain, both] = [layer({}), layer({ shared })];
    expectNear(
      await numbers(both.forward(x)),
      await numbers(plain.forward(x).add(shared.forward(x))),
    );
    const mixed = layer({ residual: shared });
    const shares = mixed.coefficient?.forward(x).softmax() ?? x;
    expectNear(
      await numbers(mixed.forward(x)),
      await numbers(
        plain
          .forward(x)
          .mul(shares.slice(1, 0, 1))
          .add(shared.forward(x).mul(shares.slice(1, 1, 2))),
      ),
    );
  });

  it('routes in f32 inside autocast, and computes experts in 16 bits', async () => {
    const moe = layer({});
    const x = input();
    const [plain, lower] = [moe.forward(x), autocast({}, () => moe.forward(x))];
    expect(lower.dtype).toBe('f32');
    const [wide, narrow] = [await numbers(plain), await numbers(lower)];
    const worst = Math.max(...wide.map((value, index) => Math.abs(value - (narrow[index] ?? NaN))));
    expect(worst).toBeGreaterThan(0);
    expect(worst).toBeLessThan(0.05);
  });

  it('trains alike with activation checkpointing, whatever its gate draws', async () => {
    const train = async (checkpointed: boolean): Promise<number[]> => {
      manualSeed(1);
      const capacity = { factor: 1, drop: 'random' } as const;
      const moe = layer({
        gate: nn.topKGate({ jitter: 0.1, noise: 'all', capacity }),
        balance: { kind: 'megatron', coefficient: 0.1 },
        bias: { rate: 0.1 },
      });
      const optimizer = new optim.SGD(moe.parameters(), { lr: 0.5 });
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const pass = (): Tensor => moe.forward(input().add(step));
        const y = checkpointed ? nn.checkpoint(pass) : pass();
        y.square().mean().add(nn.auxiliaryLoss(moe)).backward();
        nn.updateExpertBias(moe);
        await optimizer.step();
      }
      return [...(await numbers(moe.experts.up)), ...(await numbers(moe.expertBias))];
    };
    expectNear(await train(true), await train(false));
  });

  it('moves biases up of experts with few tokens and down of others, in training alone', async () => {
    const move = async (rule: 'sign' | 'zeroMean', training = true): Promise<number[]> => {
      const moe = layer({ gate: nn.switchGate(), bias: { rate: 0.5, rule } });
      if (!training) moe.eval();
      moe.router.weight.assign(
        tensor([[9, 0, 0, 0, 0, 0]].concat([1, 2, 3].map(() => [0, 0, 0, 0, 0, 0]))),
      );
      await moe.forward(tensor([[1, 0, 0, 0, 0, 0]])).realize();
      nn.updateExpertBias(moe);
      return numbers(moe.expertBias);
    };
    expect(await move('sign')).toEqual([-0.5, 0.5, 0.5, 0.5]);
    expect(await move('zeroMean')).toEqual([-0.75, 0.25, 0.25, 0.25]);
    expect(await move('sign', false)).toEqual([0, 0, 0, 0]);
  });

  it('asks whose tokens count where an axis has a name of its own', () => {
    const moe = layer({ bias: {} });
    const group = singleGroup();
    const mesh = { axes: [{ name: 'data', size: 2 }], group: () => group, coordinate: () => 0 };
    setRank({ device: interpreter(), mesh });
    expect(() => nn.updateExpertBias(moe)).toThrow("updateExpertBias(model, ['data'])");
    expect(() => nn.updateExpertBias(moe, ['data'])).not.toThrow();
  });

  it('tells load, drop rate and entropy of the latest pass', async () => {
    const moe = layer({ gate: nn.topKGate({ k: 4 }) });
    await expect(moe.routerStatistics()).rejects.toThrow('no forward pass yet');
    await moe.forward(input()).realize();
    const { load, imbalance, dropRate, entropy } = await moe.routerStatistics();
    expect([...load, imbalance, dropRate]).toEqual([0.25, 0.25, 0.25, 0.25, 1, 0]);
    expect(entropy).toBeGreaterThan(0);
    expect(entropy).toBeLessThan(1);
    moe.router.weight.assign(moe.router.weight.mul(0));
    await moe.forward(input()).realize();
    expect((await moe.routerStatistics()).entropy).toBeCloseTo(1, 5);
  });

  it('gives metrics of all layers of a model for the live block and the report', async () => {
    const [one, other] = [layer({ gate: nn.roundRobinGate() }), layer({ gate: nn.switchGate() })];
    expect(await nn.routerMetrics(new nn.Linear(2, 2))).toEqual({});
    const model = new nn.Sequential(one, other);
    other.router.weight.assign(other.router.weight.mul(0));
    await model.forward(input()).realize();
    const metrics = await nn.routerMetrics(model);
    // In the first layer all experts have the same number of routes. In the second layer the first expert has all of
    // them.
    expect(metrics).toMatchObject({ 'router/imbalance': 2.5, 'router/dropped': 0 });
    expect(metrics['experts/0']).toBeCloseTo(0.625, 6);
    expect(metrics['experts/3']).toBeCloseTo(0.125, 6);
  });

  it.each([
    ['a k above the experts', () => layer({ gate: nn.topKGate({ k: 5 }) }), 'k: 5'],
    ['no k', () => nn.topKGate({ k: 0 }), 'k: 0'],
    ['a capacity of 0', () => nn.switchGate({ capacity: { factor: 0 } }), 'factor: 0'],
    [
      'groups that do not divide experts',
      () => layer({ gate: nn.topKGate({ groups: { count: 3, chosen: 1 } }) }),
      '3 groups',
    ],
    [
      'groups of too few experts',
      () => layer({ gate: nn.topKGate({ k: 3, groups: { count: 4, chosen: 2 } }) }),
      '2 of 4 groups',
    ],
    ['no experts', () => new nn.MixtureOfExperts(4, 4, 0), 'experts: 0'],
    [
      'a balance loss of expert choice',
      () =>
        layer({
          gate: nn.expertChoiceGate(),
          balance: { kind: 'switch', coefficient: 1 },
        }),
      'nothing to balance',
    ],
    ['a random second of three', () => nn.topKGate({ k: 3, randomSecond: true }), 'k: 3'],
  ])('refuses %s', (_, make, message) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(message);
  });
});
