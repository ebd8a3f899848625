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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { filled } from './filled.ts';

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  DataParallel: () => dataParallel(),
};

/** Values of a batch. Shape: -> [4, 2, 2, 2]. */
function batch(seed: number): Tensor {
  const values = Float32Array.from({ length: 32 }, (_, i) => Math.sin(seed * 31 + i * 1.7));
  return fromData(values, [4, 2, 2, 2], 'f32');
}

async function read(norm: nn.BatchNorm2d): Promise<number[]> {
  return [...(await valuesOf(norm.runningMean)), ...(await valuesOf(norm.runningVar))];
}

const size = 3;

describe.each(Object.entries(strategies))('batch normalisation under %s', (name, strategy) => {
  /** Returns a model and its norm. Before the strategy is applied, rank r has set its running mean to r + 1. */
  const begin = async (rank: number) => {
    const norm = new nn.BatchNorm2d(2);
    norm.runningMean.assign(fromData(Float32Array.of(rank + 1, rank + 1), [2], 'f32'));
    const model = filled(new nn.Sequential(new nn.Conv2d(2, 2, 1), norm));
    return { norm, parallel: await parallelize(model, strategy()) };
  };

  it("begins with rank 0's statistics on all ranks", async () => {
    await onRanks(size, async ({ rank }) => {
      const { norm } = await begin(rank);
      expect(await read(norm)).toEqual([1, 1, 1, 1]);
    });
  });

  it('evaluates with the same statistics on all ranks, after each epoch and in each pass, and trains with those of its own batches', async () => {
    const ranks = await onRanks(size, async ({ rank }) => {
      const { norm, parallel } = await begin(rank);
      const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
      const [own, outputs]: [string[], string[]] = [[], []];
      for (let epoch = 0; epoch < 2; epoch++) {
        parallel.module.train();
        for (let step = 0; step < 2; step++) {
          optimizer.zeroGrad();
          parallel
            .forward(batch(10 * epoch + step + 100 * rank))
            .square()
            .mean()
            .backward();
          await optimizer.step();
        }
        own.push(String(await read(norm)));
        parallel.module.eval();
        const evaluate = async (): Promise<string> =>
          String(await valuesOf(noGrad(() => parallel.forward(batch(7)))));
        const first = await evaluate();
        const before = statistics().collectives;
        const second = await evaluate();
        // DataParallel has all outputs on rank 0, and zeros on the others.
        if (rank === 0 || name !== 'DataParallel') expect(second).toBe(first);
        // These communicate once in an evaluation, of which ranks may have different numbers of batches.
        if (['DDP', 'ZeRO-1', 'ZeRO-2'].includes(name))
          expect(statistics().collectives).toBe(before);
        outputs.push(first);
      }
      return { own: String(own), outputs };
    });
    const [root, ...others] = ranks.map(({ outputs }) => outputs);
    expect(new Set(root).size).toBe(2);
    if (name !== 'DataParallel') for (const other of others) expect(other).toEqual(root);
    expect(new Set(ranks.map(({ own }) => own)).size).toBe(size);
  });
});
