import { createHash } from 'node:crypto';
import {
  fromData,
  hostPages,
  manualSeed,
  nn,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { ddp, fsdp, OffloadedOptimizer, parallelize, zero } from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const f16 = { parameterDtype: 'f16' } as const;

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'DDP in f16': () => ddp({ mixedPrecision: f16 }),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-1 in f16': () => zero({ stage: 1, mixedPrecision: f16 }),
  'ZeRO-2 in f16': () => zero({ stage: 2, mixedPrecision: f16 }),
  'ZeRO-3 in f16': () => zero({ stage: 3, mixedPrecision: f16 }),
  FSDP: () => fsdp(),
  'FSDP in f16': () => fsdp({ mixedPrecision: f16 }),
  'FSDP, offloaded, in f16': () => fsdp({ mixedPrecision: f16 }),
};

/** The step in which a rank's gradients overflow, and the one after it. */
interface Skipped {
  taken: boolean[];
  /** The hashes of parameters and optimizer states after each step. */
  hashes: string[];
  scale: number;
}
/**
 * Three steps whose gradients stay on their rank until the optimizer averages them. One of them overflows on one rank.
 */
interface Local {
  taken: boolean[];
  weights: number[][];
}
interface Outcome {
  skipped: Record<string, Skipped>;
  local: Local;
  /** The parameters after a step on sequences of different lengths. */
  weights: Record<string, number[]>;
}

async function outcomeOf(context: RankInThread): Promise<Outcome> {
  const found: Outcome = {
    skipped: {},
    local: await localGradients(context),
    weights: {},
  };
  for (const [name, strategy] of Object.entries(strategies)) {
    found.skipped[name] = await overflowOnOneRank(strategy, context, name.includes('offloaded'));
    if (!name.endsWith('f16')) found.weights[name] = await unevenTokens(strategy, context);
  }
  return found;
}

async function overflowOnOneRank(
  strategy: () => Strategy,
  { rank, size }: RankInThread,
  offloaded: boolean,
): Promise<Skipped> {
  manualSeed(0);
  const model = new nn.Linear(5, 3);
  const parallel = await parallelize(model, strategy());
  const adam = new optim.Adam(model.parameters());
  const pages = { states: hostPages(), gradients: hostPages(), chunkBytes: 1 };
  const optimizer = offloaded ? new OffloadedOptimizer(model, adam, pages) : adam;
  const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 8, hysteresis: 1 });
  const taken: boolean[] = [];
  const hashes: string[] = [];
  for (let step = 0; step < 4; step++) {
    const overflows = step === 2 && rank === size - 1;
    optimizer.zeroGrad();
    const x = fromData(
      new Float32Array(10).fill(overflows ? Infinity : (step + rank) / 8),
      [2, 5],
      'f32',
    );
    const loss = parallel.forward(x).square().mean();
    scaler.scale(loss).backward();
    taken.push(await scaler.step(optimizer));
    scaler.update();
    const hash = createHash('sha256');
    for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
    // The optimizer's steps and moments for this rank's parts.
    const { state } = await adam.stateDict();
    const own = createHash('sha256');
    for (const arrays of Object.values(state)) {
      for (const { bytes } of Object.values(arrays)) own.update(bytes);
    }
    hashes.push(`${hash.digest('hex')} ${own.digest('hex')}`);
  }
  return { taken, hashes, scale: scaler.lossScale };
}

/** 1-bit Adam averages gradients itself, so only one rank's gradients overflow. */
async function localGradients({ rank, size }: RankInThread): Promise<Local> {
  manualSeed(0);
  const model = new nn.Linear(5, 3);
  const parallel = await parallelize(model, ddp());
  const optimizer = new optim.OneBitAdam(model.parameters(), { freezeStep: 2 });
  const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 8 });
  const found: Local = { taken: [], weights: [] };
  for (let step = 0; step < 4; step++) {
    const overflows = step === 1 && rank === size - 1;
    optimizer.zeroGrad();
    parallel.noSync(() => {
      const x = new Float32Array(10).fill(overflows ? Infinity : (step + rank) / 8);
      scaler
        .scale(
          parallel
            .forward(fromData(x, [2, 5], 'f32'))
            .square()
            .mean(),
        )
        .backward();
    });
    found.taken.push(await scaler.step(optimizer));
    scaler.update();
    found.weights.push(await weightsOf(model));
  }
  return found;
}

/** The number of tokens in each microbatch of each rank. The rest of its 8 tokens is padding. */
const lengths = [
  [8, 1],
  [3, 5],
  [2, 7],
] as const;
const ignoreIndex = -100;

class Bigram extends nn.Module {
  readonly table = new nn.Embedding(6, 4);
  readonly head = new nn.Linear(4, 6);

  /** Shape: x i32 [T] -> [T, 6]. */
  forward(x: Tensor): Tensor {
    return this.head.forward(this.table.forward(x));
  }
}

function sequence(rank: number, microbatch: number): { x: Int32Array; y: Int32Array } {
  const x = Int32Array.from({ length: 8 }, (_, i) => (i * 5 + rank * 2 + microbatch) % 6);
  const tokens = lengths[rank]?.[microbatch] ?? 0;
  const y = Int32Array.from(x, (token, i) => (i < tokens ? (token * 2 + 1) % 6 : ignoreIndex));
  return { x, y };
}

async function unevenTokens(strategy: () => Strategy, { rank }: RankInThread): Promise<number[]> {
  manualSeed(0);
  const model = new Bigram();
  const parallel = await parallelize(model, strategy());
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  const scale = nn.tokenLossScale(lengths[rank] ?? []);
  const pass = (microbatch: number): void => {
    const { x, y } = sequence(rank, microbatch);
    const logits = parallel.forward(fromData(x, [8], 'i32'));
    const options = { reduction: 'sum', ignoreIndex } as const;
    nn.functional
      .crossEntropy(logits, fromData(y, [8], 'i32'), options)
      .mul(scale)
      .backward();
  };
  parallel.noSync(() => pass(0));
  pass(1);
  await optimizer.step();
  return weightsOf(model);
}

/** Makes the same step with one batch of all sequences. The loss is the mean over its tokens. */
async function oneBigBatch(ranks: number): Promise<number[]> {
  manualSeed(0);
  const model = new Bigram();
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  const all = lengths
    .slice(0, ranks)
    .flatMap((counts, rank) => counts.map((_, i) => sequence(rank, i)));
  const joined = (of: 'x' | 'y'): Tensor => {
    const data = Int32Array.from(all.flatMap((each) => [...each[of]]));
    return fromData(data, [data.length], 'i32');
  };
  nn.functional.crossEntropy(model.forward(joined('x')), joined('y'), { ignoreIndex }).backward();
  await optimizer.step();
  return weightsOf(model);
}

async function weightsOf(model: nn.Module): Promise<number[]> {
  return Object.values(await model.stateDict()).flatMap(({ bytes }) =>
    Array.from(new Float32Array(bytes.slice().buffer)),
  );
}

describe.each([2, 3])('on %i ranks', (size) => {
  let ranks: readonly Outcome[] = [];
  let expected: readonly number[] = [];

  beforeAll(async () => {
    [expected = []] = await onRanks(1, () => oneBigBatch(size));
    ranks = await onRanks(size, outcomeOf);
  });

  describe.each(Object.keys(strategies))('%s', (name) => {
    it('skips a step on all ranks where one of them overflows, and changes nothing', () => {
      const each = ranks.flatMap(({ skipped }) => skipped[name] ?? []);
      expect(each).toHaveLength(size);
      for (const { taken, hashes, scale } of each) {
        expect(taken).toEqual([true, true, false, true]);
        expect(scale).toBe(2 ** 7);
        expect(hashes[2]).toBe(hashes[1]);
        expect(new Set(hashes).size).toBe(3);
      }
    });
  });

  it('1-bit Adam skips a step on all ranks where the gradients of one of them overflow', () => {
    for (const { local } of ranks) {
      expect(local.taken).toEqual([true, false, true, true]);
      expect(local.weights[1]).toEqual(local.weights[0]);
      expect(local.weights.flat().every(Number.isFinite)).toBe(true);
      expect(local.weights).toEqual(ranks[0]?.local.weights);
    }
  });

  it.each(Object.keys(strategies).filter((name) => !name.endsWith('f16')))(
    '%s on microbatches of different lengths gives the step of one big batch',
    (name) => {
      for (const { weights } of ranks) {
        const found = weights[name] ?? [];
        expect(describeDifference(found, expected, { rtol: 1e-5, atol: 1e-6 })).toBeUndefined();
      }
    },
  );
});
