import {
  allReduce,
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  ShardwiseError,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { ddp, fsdp, joinBatches, type JoinOptions, parallelize, zero } from '@shardwise/strategies';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

const strategies = {
  ddp: () => ddp(),
  'zero 1': () => zero({ stage: 1 }),
  'zero 2': () => zero({ stage: 2 }),
  'zero 3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
} satisfies Record<string, () => Strategy>;

const rows = 3;

/** The batch with this number of a rank. Shape: -> [3, 4]. */
function batchOf(rank: number, number: number): Tensor {
  const values = Float32Array.from({ length: rows * 4 }, (_, i) =>
    Math.sin(1 + i + 5 * number + 17 * rank),
  );
  return fromData(values, [rows, 4], 'f32');
}

/** A rank has one batch more than the one before it. */
const batchesOf = (rank: number): number => 1 + rank;

function build(): nn.Sequential {
  manualSeed(4);
  return new nn.Sequential(new nn.Linear(4, 5), new nn.Tanh(), new nn.Linear(5, 1));
}

const optimizerOf = (model: nn.Module): optim.SGD =>
  new optim.SGD(model.parameters(), { lr: 0.2, momentum: 0.9 });

const lossOf = (output: Tensor): Tensor => output.square().mean();

interface Trained {
  weights: number[];
  updated: boolean[];
  error: {
    code: string;
    message: string;
  } | null;
}

interface UnevenBatchesTask {
  readonly strategy: keyof typeof strategies;
  readonly options: JoinOptions;
  /** The rank that has no batch. */
  readonly without?: number;
  /** In the second step, the loss of this rank is not finite. */
  readonly badRank?: number;
}

async function train(
  { strategy, options, without, badRank }: UnevenBatchesTask,
  rank: number,
): Promise<Trained> {
  const parallel = await parallelize(build(), strategies[strategy]());
  const optimizer = optimizerOf(parallel.module);
  const count = rank === without ? 0 : batchesOf(rank);
  const batches = Array.from({ length: count }, (_, number) => batchOf(rank, number));
  const updated: boolean[] = [];
  let error: Trained['error'] = null;
  try {
    for await (const { batch, weight } of joinBatches(batches, options)) {
      optimizer.zeroGrad();
      const isBad = rank === badRank && updated.length === 1;
      const loss = lossOf(parallel.forward(batch)).mul(isBad ? Number.NaN : weight);
      loss.backward();
      const isBadAnywhere = allReduce(loss.isFinite().logicalNot().to('f32'), 'dp').gt(0);
      optim.clipGradNorm(parallel.module.parameters(), 0.5);
      updated.push(await optimizer.step({ skipIf: isBadAnywhere }));
    }
  } catch (caught) {
    if (!ShardwiseError.isInstance(caught)) throw caught;
    error = { code: caught.code, message: caught.message };
  }
  const weights = parallel.module
    .parameters()
    .map(async (each) => Array.from(await each.data(), Number));
  return { weights: (await Promise.all(weights)).flat(), updated, error };
}

const size = 3;
const ranks = Array.from({ length: size }, (_, rank) => rank);

/** The results of each task on all ranks. */
function trainAll(tasks: readonly UnevenBatchesTask[]): Promise<readonly (readonly Trained[])[]> {
  return Promise.all(tasks.map((task) => onRanks(size, ({ rank }) => train(task, rank))));
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
