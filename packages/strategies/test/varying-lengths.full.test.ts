import {
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  statistics,
  type Strategy,
} from '@shardwise/core';
import {
  ddp,
  fsdp,
  gptTensorParallel,
  parallelize,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { GPT } from '../../../examples/gpt/model.ts';

const heads = 4;

interface Case {
  readonly strategy: Strategy;
  /** Whether the sequences of each rank have a different length. */
  readonly ownLengths: boolean;
}

const cases: Readonly<Record<string, Case>> = {
  ddp: { strategy: ddp(), ownLengths: true },
  'zero 2': { strategy: zero({ stage: 2 }), ownLengths: true },
  fsdp: { strategy: fsdp(), ownLengths: true },
  'tensor parallelism': {
    strategy: tensorParallel(gptTensorParallel({ heads }), { axis: 'dp' }),
    ownLengths: false,
  },
  'sequence parallelism': {
    strategy: tensorParallel(gptTensorParallel({ heads, sequenceParallel: true }), { axis: 'dp' }),
    ownLengths: false,
  },
};

type Observations = Record<
  string,
  {
    /** The losses with plans for any size. `exact` has those with a separate plan for each size. */
    losses: number[];
    exact: number[];
    plans: number;
  }
>;

/** 20 different lengths. They are even, so that two ranks can share them. */
const lengths = Array.from({ length: 20 }, (_, step) => 18 + 2 * ((step * 7) % 20));

async function train(
  { strategy, ownLengths }: Case,
  rank: number,
): Promise<{ losses: number[]; plans: number }> {
  manualSeed(0);
  const model = new GPT({ vocabularySize: 24, contextLength: 64, layers: 1, heads, channels: 16 });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
  const losses: number[] = [];
  const before = statistics().plansMade;
  for (let step = 0; step < lengths.length; step++) {
    const own = ownLengths ? step + 3 * rank : step;
    const length = lengths[own % lengths.length] ?? 0;
    const rows = 16;
    const ids = (shift: number): Int32Array<ArrayBuffer> =>
      Int32Array.from({ length: rows * length }, (_, i) => (i * 5 + own + shift) % 24);
    const shape = [rows, length];
    optimizer.zeroGrad();
    const logits = parallel.forward(fromData(ids(0), shape, 'i32'));
    const loss = nn.functional.crossEntropy(logits, fromData(ids(1), shape, 'i32'));
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return { losses, plans: statistics().plansMade - before };
}

async function trainAll({ rank, mesh, device }: RankInThread): Promise<Observations> {
  const found: Observations = {};
  for (const [name, each] of Object.entries(cases)) {
    // This makes the device need a program for each size.
    Object.defineProperty(device, 'compileSized', { value: undefined, configurable: true });
    setRank({ device, mesh });
    const { losses: exact } = await train(each, rank);
    Reflect.deleteProperty(device, 'compileSized');
    setRank({ device, mesh });
    found[name] = { exact, ...(await train(each, rank)) };
  }
  return found;
}

const size = 2;

describe(`sequences of 20 lengths on ${size} ranks`, () => {
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, trainAll, onCpu);
  });

  it.each(Object.keys(cases))(
    '%s: make at most eight plans, with the losses of exact ones',
    (name) => {
      for (const rank of ranks) {
        const { losses = [], exact = [], plans } = rank[name] ?? {};
        expect(losses).toHaveLength(20);
        losses.forEach((loss, step) => expect(loss).toBeCloseTo(exact[step] ?? NaN, 5));
        expect(plans).toBeLessThanOrEqual(8);
      }
    },
  );
});
