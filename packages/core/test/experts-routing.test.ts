import { fromData, manualSeed, nn, setRank, tensor, type Tensor } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { capacityOf } from '../src/nn/experts/limit-routes.ts';
import { sortRoutes } from '../src/nn/experts/sort-routes.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

/** The logits of 4 tokens for 4 experts. */
const a = [
  [0.11, 0.2, 0.1, 0.3],
  [0.3, 0.4, 0.11, 0.1],
  [0.11, 0.1, 0.6, 0.5],
  [0.1, 0.11, 0.7, 0.8],
];
/** The logits of 4 tokens for 6 experts. */
const b = [
  [0.5858, 0.4801, 0.6269, 0.5397, 0.9722, 0.7034],
  [0.5445, 0.6332, 0.4519, 0.6308, 0.0519, 0.645],
  [0.4874, 0.811, 0.7467, 0.8474, 0.0277, 0.3068],
  [0.857, 0.6714, 0.531, 0.3274, 0.4836, 0.9892],
];
const c = [
  [0.95, 0.85, 0.9, 0.8],
  [0.7, 0.65, 0.75, 0.6],
  [0.5, 0.55, 0.45, 0.4],
  [0.35, 0.3, 0.25, 0.2],
];

function route(gate: nn.Gate, logits: readonly (readonly number[])[], training = true): nn.Routing {
  return gate.route({ logits: tensor(logits), bias: null, training });
}

/** Returns the token, the expert and the place at the expert of each route that is kept, sorted. */
async function occupied(routing: nn.Routing, experts: number): Promise<string> {
  const { order, counts } = sortRoutes(routing, experts);
  const [routes, tokens, sizes] = await Promise.all(
    [order, routing.tokens, counts].map(async (x) => Array.from(await x.data(), Number)),
  );
  let start = 0;
  const found = (sizes ?? []).flatMap((size, expert) => {
    const own = (routes ?? []).slice(start, start + size);
    start += size;
    return own.map((index, slot) => `${tokens?.[index]}${expert}${slot}`);
  });
  return found.toSorted().join(' ');
}

/** Returns the weights of each token's kept routes, by expert. */
async function weightsOf(routing: nn.Routing): Promise<Record<number, number>[]> {
  const [tokens, experts, weights] = await Promise.all(
    [routing.tokens, routing.experts, routing.weights].map(async (x) =>
      Array.from(await x.data(), Number),
    ),
  );
  const found: Record<number, number>[] = [];
  (tokens ?? []).forEach((token, index) => {
    const weight = weights?.[index] ?? NaN;
    found[token] ??= {};
    if (weight !== 0) Object.assign(found[token], { [experts?.[index] ?? -1]: weight });
  });
  return found.map((each) =>
    Object.fromEntries(Object.entries(each).map(([key, x]) => [key, Math.round(x * 1e4) / 1e4])),
  );
}

const topK = (k: number, drop: 'probs' | 'position', factor = 1): nn.Gate =>
  nn.topKGate({ k, normalize: 'kept', capacity: { factor, drop } });

describe('DeepSpeed’s top-k gate keeps, of more routes than an expert takes,', () => {
  it.each([
    [2, 'probs', a, '010 100 111 220 230 321 331'],
    [2, 'position', a, '010 030 100 111 220 231 321'],
    [3, 'probs', b, '020 040 110 130 150 211 221 231 300 351'],
    [3, 'position', b, '020 040 050 110 130 151 211 221 231 300'],
  ] as const)('with k %i the routes of the largest %s', async (k, drop, logits, expected) => {
    const routing = route(topK(k, drop), logits);
    expect(await occupied(routing, logits[0]?.length ?? 0)).toBe(expected);
  });

  it('all of them where there is room, at any scale of logits', async () => {
    for (const scale of [1, 2]) {
      const logits = c.map((row) => row.map((x) => x * scale));
      const found = await occupied(route(nn.topKGate({ k: 2 }), logits), 4);
      // Without a capacity, places depend only on the choices: experts 0 and 2 for two tokens, then 0 and 1.
      expect(found).toBe('000 020 101 121 202 210 303 311');
    }
  });

  it('and divides weights by the sum of those that are kept', async () => {
    expect(await weightsOf(route(topK(2, 'probs'), a))).toEqual([
      { 1: 1 },
      { 0: 0.475, 1: 0.525 },
      { 2: 0.525, 3: 0.475 },
      { 2: 0.475, 3: 0.525 },
    ]);
    const [first, , , last] = await weightsOf(route(topK(2, 'position'), a));
    expect([first, last]).toEqual([{ 1: 0.475, 3: 0.525 }, { 2: 1 }]);
    const ofB = await weightsOf(route(topK(3, 'probs'), b));
    expect([ofB[0], ofB[3]]).toEqual([
      { 2: 0.4145, 4: 0.5855 },
      { 0: 0.467, 5: 0.533 },
    ]);
  });
});

describe('capacities', () => {
  it.each([
    [{ factor: 2 }, 16, 2, 16],
    [{ factor: 4 }, 8, 2, 16],
    [{ factor: 1, minimum: 8 }, 4, 4, 8],
    [{ factor: 8 }, 3, 4, 6],
    [{ factor: 1 }, 8, 4, 2],
  ])('%o of %i routes among %i experts take %i each', (limit, routes, experts, expected) => {
    expect(capacityOf(limit, routes, experts, true)).toBe(expected);
  });

  it('are others in evaluation where they are asked for', () => {
    const limit = { factor: 1, evaluationFactor: 2 };
    expect([capacityOf(limit, 8, 4, true), capacityOf(limit, 8, 4, false)]).toEqual([2, 4]);
  });

  it('are filled by first choices before second ones with GShard', async () => {
    const logits = [
      [3, 2, 0],
      [3, 2, 0],
      [2, 3, 0],
    ];
    const gate = (firstChoicesFirst: boolean): nn.Gate =>
      nn.topKGate({ k: 2, capacity: { factor: 1, firstChoicesFirst } });
    // Each expert has two places. The second choices of the first tokens take the place that the last token's first
    // choice needs.
    expect(await occupied(route(gate(false), logits), 3)).toBe('000 010 101 111');
    expect(await occupied(route(gate(true), logits), 3)).toBe('000 010 101 211');
  });

  it('are filled at random where they are asked to be, and no one place too few', async () => {
    const logits = Array.from({ length: 16 }, () => [1, 0]);
    const gate = nn.switchGate({ capacity: { factor: 0.5, drop: 'random' } });
    const [first, second] = [route(gate, logits), route(gate, logits)];
    const [one, other] = [await occupied(first, 2), await occupied(second, 2)];
    expect([one.split(' ').length, other.split(' ').length]).toEqual([4, 4]);
    expect(one).not.toBe(other);
  });
});

describe('balance losses', () => {
  const lossOf = (
    logits: readonly (readonly number[])[],
    k: number,
    kind: nn.BalanceLoss['kind'],
  ): Promise<number> => nn.balanceLoss(route(nn.topKGate({ k }), logits), kind, { k }).item();

  it('are DeepSpeed’s and Megatron’s of k choices', async () => {
    expect(await lossOf(a, 2, 'megatron')).toBeCloseTo(1.03342, 5);
    expect(await lossOf(b, 3, 'megatron')).toBeCloseTo(1.022282, 5);
  });

  it('are those of one choice', async () => {
    expect(await lossOf(a, 1, 'switch')).toBeCloseTo(1.06684, 5);
    // This is the loss without the factor of the squared number of experts.
    expect(await lossOf(a, 1, 'gshard')).toBeCloseTo(1.06684 / 16, 6);
  });

  it('of z are the mean square of logsumexp', async () => {
    expect(await nn.routerZLoss(tensor(a)).item()).toBeCloseTo(2.898035, 5);
    expect(await nn.routerZLoss(tensor(b)).item()).toBeCloseTo(5.755244, 5);
  });

  it('average shares, and count choices before any are dropped', async () => {
    const { shares } = route(topK(2, 'probs'), a);
    const means = Array.from(await shares.mean([0]).data(), Number);
    [0.21667, 0.229105, 0.270715, 0.28351].forEach((mean, expert) =>
      expect(means[expert]).toBeCloseTo(mean, 5),
    );
    const limited = nn.balanceLoss(route(topK(2, 'probs'), a), 'megatron', { k: 2 });
    expect(await limited.item()).toBeCloseTo(1.03342, 5);
  });

  it('and biases count a second choice that was left out at random nowhere', async () => {
    const logits = Array.from({ length: 32 }, () => [8, 0, -1, -2]);
    const routing = route(nn.gshardGate(), logits);
    const experts = Array.from(await routing.experts.data(), Number);
    // The second choice has next to no weight, so that it is left out.
    expect(experts.filter((expert) => expert === 4)).toHaveLength(32);
    const [share] = (await routing.shares.data()).slice(0, 1);
    const loss = await nn.balanceLoss(routing, 'megatron', { k: 2 }).item();
    expect(loss).toBeCloseTo((4 / 2) * Number(share), 5);
    const layer = new nn.MixtureOfExperts(4, 6, 4, { gate: nn.gshardGate(), bias: { rate: 0.5 } });
    layer.forward(tensor(logits));
    nn.updateExpertBias(layer, []);
    const bias = Array.from((await layer.expertBias?.data()) ?? [], Number);
    expect(bias.reduce((sum, each) => sum + Math.abs(each), 0)).toBeGreaterThan(0);
  });

  it('of several sequences are the mean of those of each', async () => {
    const routing = route(nn.topKGate({ k: 2 }), [...a, ...c]);
    const both = await nn.balanceLoss(routing, 'megatron', { k: 2, sequences: 2 }).item();
    const [first, second] = [await lossOf(a, 2, 'megatron'), await lossOf(c, 2, 'megatron')];
    expect(both).toBeCloseTo((first + second) / 2, 6);
  });

  it('have the gradients that finite differences give', async () => {
    const logits = tensor(a).requiresGrad_();
    const loss = (x: Tensor): Tensor =>
      nn.balanceLoss(
        nn.topKGate({ k: 2 }).route({ logits: x, bias: null, training: true }),
        'megatron',
        { k: 2 },
      );
    loss(logits).backward();
    const gradient = Array.from((await logits.grad?.data()) ?? [], Number);
    const step = 1e-2;
    const at = async (change: number): Promise<number> =>
      loss(tensor(a.map((row, i) => row.map((x, j) => (i + j === 0 ? x + change : x))))).item();
    expect(gradient[0]).toBeCloseTo(((await at(step)) - (await at(-step))) / (2 * step), 4);
  });
});

describe('gates', () => {
  it('weigh by a softmax of those that are chosen, or by sigmoids whose sum is 1', async () => {
    const [chosen] = await weightsOf(route(nn.topKGate({ k: 2, scores: 'softmaxOfChosen' }), a));
    expect(chosen).toEqual({ 1: 0.475, 3: 0.525 });
    const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
    const sum = sigmoid(0.2) + sigmoid(0.3);
    const gate = nn.topKGate({ k: 2, scores: 'sigmoid', normalize: 'chosen', scale: 2.5 });
    const [own] = await weightsOf(route(gate, a));
    expect(own?.[1]).toBeCloseTo((2.5 * sigmoid(0.2)) / sum, 4);
    expect(own?.[3]).toBeCloseTo((2.5 * sigmoid(0.3)) / sum, 4);
  });

  it('choose by scores with a bias, and weigh by those without', async () => {
    const bias = tensor([10, 0, 0, 0]);
    const routing = nn
      .topKGate({ k: 2, scores: 'sigmoid' })
      .route({ logits: tensor(a), bias, training: true });
    const [first] = await weightsOf(routing);
    expect(Object.keys(first ?? {})).toEqual(['0', '3']);
    expect(first?.[0]).toBeCloseTo(1 / (1 + Math.exp(-0.11)), 4);
  });

  it('choose among the best groups alone', async () => {
    // The best expert is in the second group, but the two best experts of the first group have a larger sum.
    const logits = [[0.6, 0.5, 0.7, 0, 0.1, 0.2]];
    const groups = { count: 3, chosen: 1 };
    const routing = route(nn.topKGate({ k: 2, scores: 'sigmoid', groups }), logits);
    expect(Object.keys((await weightsOf(routing))[0] ?? {})).toEqual(['0', '1']);
  });

  it('draw an expert by its probability where Gumbel noise is asked for, in training alone', async () => {
    const logits = Array.from({ length: 4000 }, () => [Math.log(0.2), Math.log(0.8)]);
    const share = async (training: boolean): Promise<number> => {
      const { experts } = route(nn.switchGate({ gumbel: true }), logits, training);
      return experts.to('f32').mean().item();
    };
    expect(await share(true)).toBeGreaterThan(0.77);
    expect(await share(true)).toBeLessThan(0.83);
    expect(await share(false)).toBe(1);
  });

  it('leave the second expert of GShard out the more often the less it weighs', async () => {
    const logits = Array.from({ length: 4000 }, () => [Math.log(9), 0, -Infinity]);
    const kept = async (training: boolean): Promise<number> => {
      const { kept: all, experts } = route(nn.gshardGate(), logits, training);
      return all === null ? 1 : (await all.to('f32').sum().item()) / experts.numel;
    };
    // With weights 0.9 and 0.1, the second choice is kept in one of five cases.
    expect(Math.abs((await kept(true)) - 0.6)).toBeLessThan(0.02);
    expect(await kept(false)).toBe(1);
  });

  it('let experts choose as many tokens each', async () => {
    const routing = route(nn.expertChoiceGate({ factor: 1 }), a);
    expect(await occupied(routing, 4)).toBe('100 110 220 330');
    const shares = await route(nn.expertChoiceGate({ factor: 1 }), a).shares.data();
    const [weights] = [await weightsOf(routing)];
    expect(weights[1]?.[0]).toBeCloseTo(Number(shares[4]), 4);
  });

  it('give no gradient to what they choose by, and the right one to what they weigh by', async () => {
    const logits = fromData(Float32Array.of(1, 2, 3), [1, 3], 'f32').requiresGrad_();
    const { weights } = nn
      .topKGate({ k: 2, scores: 'softmaxOfChosen' })
      .route({ logits, bias: null, training: true });
    weights.slice(0, 0, 1).sum().backward();
    const gradient = Array.from((await logits.grad?.data()) ?? [], Number);
    const p = 1 / (1 + Math.exp(-1));
    [0, -p * (1 - p), p * (1 - p)].forEach((slope, index) =>
      expect(gradient[index]).toBeCloseTo(slope, 6),
    );
  });
});
