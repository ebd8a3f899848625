import {
  fromData,
  nn,
  noGrad,
  optim,
  statistics,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { dataParallel, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  DataParallel: () => dataParallel(),
};

type Numbers = number[];
interface Evaluation {
  /** The statistics after the strategy has been applied. Before that, rank r has set its own to r + 1. */
  initial: Numbers;
  /** Rank 0's statistics after each epoch, computed from its own batches. Other ranks have different ones. */
  own: Numbers[];
  /** The outputs for the same inputs after each epoch, in a first and a second forward pass. */
  outputs: Numbers[][];
  /** The number of collectives in the second forward pass. */
  collectives: Numbers;
}
type Evaluations = Record<string, Evaluation>;

/** Values of a batch. Shape: -> [4, 2, 2, 2]. */
function batch(seed: number): Tensor {
  const values = Float32Array.from({ length: 32 }, (_, i) => Math.sin(seed * 31 + i * 1.7));
  return fromData(values, [4, 2, 2, 2], 'f32');
}

async function evaluate(strategy: Strategy, rank: number): Promise<Evaluation> {
  const norm = new nn.BatchNorm2d(2);
  const model = new nn.Sequential(new nn.Conv2d(2, 2, 1), norm);
  norm.runningMean.assign(fromData(Float32Array.of(rank + 1, rank + 1), [2], 'f32'));
  noGrad(() => {
    for (const parameter of model.parameters()) {
      const values = Float32Array.from({ length: parameter.numel }, (_, i) => Math.sin(i + 1));
      parameter.assign(fromData(values, parameter.shape, 'f32'));
    }
  });
  const parallel = await parallelize(model, strategy);
  const found: Evaluation = { initial: await read(norm), own: [], outputs: [], collectives: [] };
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  for (let epoch = 0; epoch < 2; epoch++) {
    model.train();
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      parallel
        .forward(batch(10 * epoch + step + 100 * rank))
        .square()
        .mean()
        .backward();
      await optimizer.step();
    }
    found.own.push(await read(norm));
    model.eval();
    const outputs: number[][] = [];
    let before = 0;
    for (let pass = 0; pass < 2; pass++) {
      before = statistics().collectives;
      const y = noGrad(() => parallel.forward(batch(7)));
      outputs.push(Array.from(await y.data(), Number));
    }
    found.outputs.push(outputs);
    found.collectives.push(statistics().collectives - before);
  }
  return found;
}

async function read(norm: nn.BatchNorm2d): Promise<number[]> {
  const mean = await norm.runningMean.data();
  const variance = await norm.runningVar.data();
  return [...Array.from(mean, Number), ...Array.from(variance, Number)];
}

async function observe(context: RankInThread): Promise<Record<string, Evaluation>> {
  const found: Record<string, Evaluation> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    found[name] = await evaluate(strategy(), context.rank);
  }
  return found;
}

const size = 3;
let ranks: readonly Evaluations[] = [];

beforeAll(async () => {
  ranks = await onRanks(size, observe);
});

describe.each(Object.keys(strategies))('batch normalisation under %s', (name) => {
  const each = (): readonly Evaluation[] => ranks.flatMap((rank) => rank[name] ?? []);

  it("begins with rank 0's statistics on all ranks", () => {
    expect(each().map(({ initial }) => initial)).toEqual(
      Array.from({ length: size }, () => [1, 1, 1, 1]),
    );
  });

  it('evaluates with the same statistics on all ranks, after each epoch and in each pass', () => {
    // With DataParallel, rank 0 has all outputs and the other ranks have zeros.
    const outputs = each().map((one) => one.outputs);
    expect(outputs).toHaveLength(size);
    const [root = [], ...others] = outputs;
    for (const [first, second] of root) expect(second).toEqual(first);
    expect(new Set(root.map((passes) => JSON.stringify(passes))).size).toBe(2);
    if (name !== 'DataParallel') for (const other of others) expect(other).toEqual(root);
  });

  it('trains with statistics of its own batches in between', () => {
    const own = each().map((one) => JSON.stringify(one.own));
    expect(new Set(own).size).toBe(size);
  });
});

it.each(['DDP', 'ZeRO-1', 'ZeRO-2'])(
  '%s communicates once in an evaluation, of which ranks may have different numbers of batches',
  (name) => {
    const later = ranks.flatMap((rank) => rank[name]?.collectives ?? []);
    expect(later).toEqual(Array.from({ length: 2 * size }, () => 0));
  },
);
