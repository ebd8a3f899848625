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
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { hashOf, stateOf } from '../../../test/support/model-values.ts';

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

/** Inputs of a step, which are infinite if its gradients are to overflow. */
function inputs(step: number, rank: number, overflows: boolean): Tensor {
  const value = overflows ? Infinity : (step + rank) / 8;
  return fromData(new Float32Array(10).fill(value), [2, 5], 'f32');
}

/** The SHA-256 of the optimizer's steps and moments for this rank's parts. */
async function hashOfStates(optimizer: optim.Adam): Promise<string> {
  const hash = createHash('sha256');
  const { state } = await optimizer.stateDict();
  for (const arrays of Object.values(state)) {
    for (const { bytes } of Object.values(arrays)) hash.update(bytes);
  }
  return hash.digest('hex');
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

/** Makes a step with one batch of all sequences. The loss is the mean over its tokens. */
async function oneBigBatch(ranks: number): Promise<Record<string, number[]>> {
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
  return stateOf(model);
}

describe.each([2, 3])('on %i ranks', (size) => {
  it.each(Object.entries(strategies))(
    '%s skips a step on all ranks where one of them overflows, and changes nothing',
    async (name, strategy) => {
      await onRanks(size, async ({ rank }) => {
        manualSeed(0);
        const model = new nn.Linear(5, 3);
        const parallel = await parallelize(model, strategy());
        const adam = new optim.Adam(model.parameters());
        const pages = { states: hostPages(), gradients: hostPages(), chunkBytes: 1 };
        const optimizer = name.includes('offloaded')
          ? new OffloadedOptimizer(model, adam, pages)
          : adam;
        const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 8, hysteresis: 1 });
        const taken: boolean[] = [];
        const hashes: string[] = [];
        for (let step = 0; step < 4; step++) {
          optimizer.zeroGrad();
          const x = inputs(step, rank, step === 2 && rank === size - 1);
          scaler.scale(parallel.forward(x).square().mean()).backward();
          taken.push(await scaler.step(optimizer));
          scaler.update();
          hashes.push(`${await hashOf(model)} ${await hashOfStates(adam)}`);
        }
        expect(taken).toEqual([true, true, false, true]);
        expect(scaler.lossScale).toBe(2 ** 7);
        expect(hashes[2]).toBe(hashes[1]);
        expect(new Set(hashes).size).toBe(3);
      });
    },
  );

  it('1-bit Adam, which averages gradients itself, skips a step on all ranks where the gradients of one of them overflow', async () => {
    const ranks = await onRanks(size, async ({ rank }) => {
      manualSeed(0);
      const model = new nn.Linear(5, 3);
      const parallel = await parallelize(model, ddp());
      const optimizer = new optim.OneBitAdam(model.parameters(), { freezeStep: 2 });
      const scaler = new optim.DynamicLossScaler({ initialScale: 2 ** 8 });
      const taken: boolean[] = [];
      const weights: Record<string, number[]>[] = [];
      for (let step = 0; step < 4; step++) {
        optimizer.zeroGrad();
        const x = inputs(step, rank, step === 1 && rank === size - 1);
        parallel.noSync(() => scaler.scale(parallel.forward(x).square().mean()).backward());
        taken.push(await scaler.step(optimizer));
        scaler.update();
        weights.push(await stateOf(model));
      }
      expect(taken).toEqual([true, false, true, true]);
      expect(weights[1]).toEqual(weights[0]);
      expect(weights.flatMap((each) => Object.values(each).flat()).every(Number.isFinite)).toBe(
        true,
      );
      return weights;
    });
    for (const weights of ranks) expect(weights).toEqual(ranks[0]);
  });

  it.each(Object.entries(strategies).filter(([name]) => !name.endsWith('f16')))(
    '%s on microbatches of different lengths gives the step of one big batch',
    async (_, strategy) => {
      const [expected = {}] = await onRanks(1, () => oneBigBatch(size));
      await onRanks(size, async ({ rank }) => {
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
        const found = await stateOf(model);
        expect(Object.keys(found)).toEqual(Object.keys(expected));
        for (const [key, values] of Object.entries(expected)) {
          assertAllclose(found[key] ?? [], values, { rtol: 1e-5, atol: 1e-6 });
        }
      });
    },
  );
});
