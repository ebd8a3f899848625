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
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
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

/** 20 different lengths. They are even, so that two ranks can share them. */
const lengths = Array.from({ length: 20 }, (_, step) => 18 + 2 * ((step * 7) % 20));

/** Returns the losses, and the number of plans that were made. */
async function train({ strategy, ownLengths }: Case, rank: number) {
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

const size = 2;

describe(`sequences of 20 lengths on ${size} ranks`, () => {
  it.each(Object.entries(cases))(
    '%s: make at most eight plans, with the losses of exact ones',
    async (_, each) => {
      await onRanks(
        size,
        async ({ rank, mesh, device }) => {
          // This makes the device need a program for each size.
          Object.defineProperty(device, 'compileSized', { value: undefined, configurable: true });
          setRank({ device, mesh });
          const exact = await train(each, rank);
          Reflect.deleteProperty(device, 'compileSized');
          setRank({ device, mesh });
          const { losses, plans } = await train(each, rank);
          expect(losses).toHaveLength(20);
          losses.forEach((loss, step) => expect(loss).toBeCloseTo(exact.losses[step] ?? NaN, 5));
          expect(plans).toBeLessThanOrEqual(8);
        },
        onCpu,
      );
    },
  );
});
