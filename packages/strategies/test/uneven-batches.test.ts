import { createThreadsWorld } from '@shardwise/collectives';
import { optim, setRank, type Tensor } from '@shardwise/core';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  batchesOf,
  batchOf,
  build,
  lossOf,
  optimizerOf,
  strategies,
  trained,
  type Trained,
  type UnevenBatchesTask,
} from './ranks/uneven-batches.ts';
import { trainingMs } from './time-limits.ts';

const size = 3;
const ranks = Array.from({ length: size }, (_, rank) => rank);

/** The results of each task on all ranks. */
async function trainAll(tasks: readonly UnevenBatchesTask[]): Promise<readonly Trained[][]> {
  const found = await runRanks(size, new URL('./ranks/uneven-batches.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
    data: tasks,
    timeoutMs: trainingMs,
  });
  const byRank = z.array(z.array(trained)).length(size).parse(found);
  return tasks.map((_, index) => byRank.flatMap((each) => each[index] ?? []));
}

/** Trains on one rank with the batches of all ranks that have one. */
async function trainAlone(dividesByAll: boolean, isSkipped = (_step: number) => false) {
  setRank({ device: interpreter() });
  const model = build();
  const optimizer = optimizerOf(model);
  for (let step = 0; step < batchesOf(size - 1); step++) {
    if (isSkipped(step)) continue;
    optimizer.zeroGrad();
    const losses = ranks
      .filter((rank) => step < batchesOf(rank))
      .map((rank): Tensor => lossOf(model.forward(batchOf(rank, step))));
    const sum = losses.reduce((all, each) => all.add(each));
    sum.div(dividesByAll ? size : losses.length).backward();
    optim.clipGradNorm(model.parameters(), 0.5);
    await optimizer.step();
  }
  const weights = model.parameters().map(async (each) => Array.from(await each.data(), Number));
  return (await Promise.all(weights)).flat();
}

const names = Object.keys(strategies) as (keyof typeof strategies)[];

describe('joinBatches', () => {
  it('joinBatches trains ranks that have different numbers of batches as one rank that has all of them', async () => {
    const results = await trainAll(names.map((strategy) => ({ strategy, options: {} })));
    const expected = await trainAlone(true);
    for (const result of results) {
      for (const { weights, updated, error } of result) {
        expect(error).toBeNull();
        expect(updated).toEqual([true, true, true]);
        assertAllclose(weights, expected, { rtol: 1e-5, atol: 1e-6 });
      }
    }
  });

  it('joinBatches averages over the ranks that have a batch, where that is asked for', async () => {
    const options = { divideByInitialWorldSize: false };
    const results = await trainAll(names.map((strategy) => ({ strategy, options })));
    const expected = await trainAlone(false);
    for (const { weights } of results.flat()) {
      assertAllclose(weights, expected, { rtol: 1e-5, atol: 1e-6 });
    }
  });

  it('joinBatches ends all ranks with an error if one has no batch, or if that is asked for when the first has run out', async () => {
    const [none = [], early = []] = await trainAll([
      { strategy: 'fsdp', options: {}, without: 1 },
      { strategy: 'fsdp', options: { throwOnEarlyTermination: true } },
    ]);
    for (const { updated, error } of none) {
      expect(updated).toEqual([]);
      expect(error?.message).toMatch(/at least one batch on each of 3 ranks: 2 of them have one/);
    }
    for (const { updated, error } of early) {
      expect(updated).toEqual([true]);
      expect(error).toMatchObject({ code: 'DATA' });
      expect(error?.message).toMatch(/the same number of batches on each of 3 ranks/);
    }
  });
});

describe('a batch that is bad on one rank', () => {
  it('a batch that is bad on one rank is skipped on all ranks by the largest of their flags, under every strategy', async () => {
    const tasks = names.map((strategy) => ({ strategy, options: {}, badRank: 2 }));
    const expected = await trainAlone(true, (step) => step === 1);
    for (const { weights, updated, error } of (await trainAll(tasks)).flat()) {
      expect(error).toBeNull();
      expect(updated).toEqual([true, false, true]);
      assertAllclose(weights, expected, { rtol: 1e-5, atol: 1e-6 });
    }
  });
});
