import { fromData, nn, optim, statistics, type Strategy, subscribe } from '@shardwise/core';
import {
  collectivesOf,
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  planFor,
  zero,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

interface Case {
  readonly strategy: () => Strategy;
  /**
   * The volume of a step in multiples of the model's size (Ψ). An all-reduce counts as a reduce-scatter and an
   * all-gather.
   */
  readonly expected: number;
  readonly microbatches?: number;
  /** Whether only the last microbatch communicates gradients. */
  readonly noSync?: boolean;
  /** The size of a second mesh axis. */
  readonly replicas?: number;
  readonly ranks?: number;
  /** Whether the input is data. If so, backward does not read the first weight. */
  readonly ofData?: boolean;
  /** Whether rank 0 has the batch of all ranks and scatters it. The paper does not count that. */
  readonly hasMaster?: boolean;
}

const layers = 5;

/** Rajbhandari et al. 2020, "ZeRO", section 7: 2Ψ for data parallelism and stages 1 and 2, 3Ψ for stage 3. */
const cases: Readonly<Record<string, Case>> = {
  DataParallel: { strategy: () => dataParallel(), expected: 2, hasMaster: true, ofData: true },
  DDP: { strategy: () => ddp(), expected: 2 },
  'ZeRO-1': { strategy: () => zero({ stage: 1 }), expected: 2 },
  'ZeRO-2': { strategy: () => zero({ stage: 2 }), expected: 2 },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }), expected: 3 },
  FSDP: { strategy: () => fsdp(), expected: 3 },
  'FSDP that keeps parameters until backward': {
    strategy: () => fsdp({ reshardAfterForward: false }),
    expected: 2,
  },
  'DDP, three passes without noSync': { strategy: () => ddp(), expected: 6, microbatches: 3 },
  'DDP, three passes': { strategy: () => ddp(), expected: 2, microbatches: 3, noSync: true },
  // The step only reads the reduction of the sum.
  'ZeRO-1, three passes without noSync': {
    strategy: () => zero({ stage: 1 }),
    expected: 2,
    microbatches: 3,
  },
  'ZeRO-2, three passes without noSync': {
    strategy: () => zero({ stage: 2 }),
    expected: 3 + 1,
    microbatches: 3,
  },
  'ZeRO-2, three passes': {
    strategy: () => zero({ stage: 2 }),
    expected: 2,
    microbatches: 3,
    noSync: true,
  },
  'FSDP, three passes without noSync': {
    strategy: () => fsdp(),
    expected: 3 * 3,
    microbatches: 3,
  },
  'FSDP, three passes': {
    strategy: () => fsdp(),
    expected: 3 * 2 + 1,
    microbatches: 3,
    noSync: true,
  },
  'FSDP that collects from two neighbours in backward': {
    strategy: () => fsdp({ reshardAfterForward: 2 }),
    expected: 3,
    ranks: 4,
  },
  // Parts of half the size are averaged over the two replicas.
  'FSDP in two replicas': {
    strategy: () => fsdp({ replicas: 'replicas' }),
    expected: 3 + 2 / 2,
    replicas: 2,
    ranks: 4,
  },
  'FSDP, of whose first layer backward reads nothing': {
    strategy: () => fsdp(),
    expected: 3 - 1 / layers,
    ofData: true,
  },
};

const width = 48;
/** Ψ in bytes. */
const modelBytes: number = layers * width * width * Float32Array.BYTES_PER_ELEMENT;

/** Returns the bytes of a step: counted as in the paper, those of all messages by the statistics, and by the plan. */
async function countStep(
  { strategy, microbatches = 1, noSync = false, ofData = false, hasMaster = false }: Case,
  size: number,
) {
  const rows = hasMaster ? 2 * size : 2;
  const model = new nn.Sequential(
    ...Array.from({ length: layers }, () => new nn.Linear(width, width, { bias: false })),
  );
  const planned = collectivesOf(planFor(model, strategy())).filter(({ when }) => when !== 'start');
  const parallel = await parallelize(model, strategy());
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const step = async (): Promise<void> => {
    optimizer.zeroGrad();
    for (let index = 0; index < microbatches; index++) {
      const pass = (): void => {
        const x = fromData(new Float32Array(rows * width).fill(1), [rows, width], 'f32');
        x.requiresGrad_(!ofData);
        parallel.forward(x).mean().backward();
      };
      if (noSync && index < microbatches - 1) parallel.noSync(pass);
      else pass();
    }
    await optimizer.step();
  };
  await step();
  let volumeBytes = 0;
  const before = statistics().collectiveBytes;
  const unsubscribe = subscribe(({ category, name, bytes = 0 }) => {
    if (category !== 'collective' || name === 'sendRecv') return;
    volumeBytes += (name === 'allReduce' ? 2 : 1) * bytes;
  });
  await step();
  unsubscribe();
  return {
    volumeBytes,
    messageBytes: statistics().collectiveBytes - before,
    plannedBytes: planned.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

describe.each([2, 3, 4])('bytes that a step of %i ranks communicates', (size) => {
  const possible = Object.entries(cases).filter(([, { ranks: only = size }]) => only === size);

  it.each(possible)(
    'are those of the paper, and of the plan where it is of one pass: %s',
    async (_, each) => {
      const { expected, replicas = 1, microbatches = 1, ofData = false } = each;
      const axes = [
        { name: 'replicas', size: replicas },
        { name: 'dp', size: size / replicas },
      ].slice(replicas === 1 ? 1 : 0);
      await onRanks(
        size,
        async () => {
          const { volumeBytes, messageBytes, plannedBytes } = await countStep(each, size);
          expect(Math.abs(volumeBytes / modelBytes / expected - 1)).toBeLessThan(0.02);
          if (microbatches === 1 && !ofData) expect(messageBytes).toBe(plannedBytes);
        },
        { axes },
      );
    },
  );
});
