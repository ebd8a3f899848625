import {
  fromData,
  LineMesh,
  nn,
  optim,
  setRank,
  statistics,
  type Strategy,
  subscribe,
} from '@shardwise/core';
import {
  collectivesOf,
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  planFor,
  zero,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { gridOf } from './ranks/grid.ts';

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

interface Counted {
  /** The bytes of a step, counted as in the paper. */
  volumeBytes: number;
  /** The bytes of all messages of a step by the statistics. `plannedBytes` is the same by the plan. */
  messageBytes: number;
  plannedBytes: number;
}
type Counts = Record<string, Counted>;

const width = 48;
/** Ψ in bytes. */
const modelBytes: number = layers * width * width * Float32Array.BYTES_PER_ELEMENT;

async function countAll({ size, group, device }: RankInThread): Promise<Counts> {
  const found: Record<string, Counted> = {};
  for (const [name, each] of Object.entries(cases)) {
    if ((each.ranks ?? size) !== size) continue;
    const mesh =
      each.replicas === undefined ? new LineMesh('dp', group) : await gridOf(group, each.replicas);
    setRank({ device, mesh });
    found[name] = await countStep(each, size);
  }
  return found;
}

async function countStep(
  { strategy, microbatches = 1, noSync = false, ofData = false, hasMaster = false }: Case,
  size: number,
): Promise<Counted> {
  const rows = hasMaster ? 2 * size : 2;
  const model = new nn.Sequential(
    ...Array.from({ length: layers }, () => new nn.Linear(width, width, { bias: false })),
  );
  const plan = planFor(model, strategy());
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
  const before = statistics();
  const unsubscribe = subscribe(({ category, name, bytes = 0 }) => {
    if (category !== 'collective' || name === 'sendRecv') return;
    volumeBytes += (name === 'allReduce' ? 2 : 1) * bytes;
  });
  await step();
  unsubscribe();
  return {
    volumeBytes,
    messageBytes: statistics().collectiveBytes - before.collectiveBytes,
    plannedBytes: collectivesOf(plan)
      .filter(({ when }) => when !== 'start')
      .reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

describe.each([2, 3, 4])('bytes that a step of %i ranks communicates', (size) => {
  let ranks: readonly Counts[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, countAll);
  });

  const possible = Object.entries(cases).filter(([, { ranks: only = size }]) => only === size);

  it.each(possible)('are those of the paper: %s', (name, { expected }) => {
    for (const rank of ranks) {
      const found = (rank[name]?.volumeBytes ?? NaN) / modelBytes;
      expect(Math.abs(found / expected - 1)).toBeLessThan(0.02);
    }
  });

  it.each(
    possible.filter(([, { microbatches = 1, ofData = false }]) => microbatches === 1 && !ofData),
  )('are those of the plan: %s', (name) => {
    for (const rank of ranks) {
      expect(rank[name]?.messageBytes).toBe(rank[name]?.plannedBytes);
    }
  });
});
