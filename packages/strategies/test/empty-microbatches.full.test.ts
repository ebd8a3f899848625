import type { MeshAxis } from '@shardwise/core';
import type { ScheduleName } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { expectAllAsAlone } from './empty-microbatch-cases.ts';
import { type EmptyTask, ignored } from './empty-microbatch-cases.ts';
import { onePerRank, twoPerRank } from './ranks/schedule-names.ts';
import { testMs } from './time-limits.ts';

const timeout = { timeout: testMs };

/** The target of each row, or none in the microbatches of a set of bits. */
function targetsOf(microbatches: number, rowsEach: number, empty: number): number[] {
  return Array.from({ length: microbatches * rowsEach }, (_, row) =>
    (empty >> Math.floor(row / rowsEach)) % 2 === 1 ? ignored : (row * 2 + empty) % 3,
  );
}

/** All sets of four microbatches may be empty. Then some targets of the others are ignored. */
const someIgnored = [
  ...Array.from({ length: 16 }, (_, empty) => targetsOf(4, 1, empty)),
  ...[0, 5, 7, 10, 14].map((empty) =>
    targetsOf(4, 2, empty).map((target, row) => (row === 2 || row === 5 ? ignored : target)),
  ),
];

/** Batches with as many rows as microbatches, with fewer, and with none. */
function short(microbatches: number): number[][] {
  const all = Array.from({ length: microbatches + 1 }, (_, missing) => missing);
  const some = [0, 1, microbatches / 2, microbatches - 1, microbatches];
  return (microbatches > 4 ? some : all).map((missing) => targetsOf(microbatches - missing, 1, 0));
}

describe.each([2, 4] as const)('a pipeline of %d ranks', (ranks) => {
  const axes: MeshAxis[] = [{ name: 'pp', size: ranks }];
  const schedules = [
    ...onePerRank.map((schedule) => ({ schedule, stages: ranks })),
    ...twoPerRank.map((schedule) => ({ schedule, stages: 2 * ranks })),
  ];
  const microbatches = 2 * ranks;
  /** Plain 1F1B has batches of all kinds, and each other schedule a third of them. */
  const batchesOf = (schedule: ScheduleName, index: number): readonly number[][] => {
    if (ranks === 4) return [1, 0b1110_1111, 0b1000_0110, 255].map((set) => targetsOf(8, 1, set));
    if (schedule === '1f1b') return someIgnored;
    return someIgnored.filter((_, at) => at % 3 === Math.floor(index / 3) % 3);
  };

  it('trains by each schedule as one rank, whichever microbatches are empty', timeout, async () => {
    const losses = ['crossEntropy', 'a masked mean', 'a mean of at least one'] as const;
    const tasks = schedules.map(({ schedule, stages }, index): [string, EmptyTask] => {
      const loss = losses[index % losses.length] ?? 'crossEntropy';
      const shares = [batchesOf(schedule, index)];
      const task = { schedule, stages, microbatches, loss, shares };
      return [`${schedule} in ${stages} stages: ${loss}`, task];
    });
    await expectAllAsAlone({ axes, tasks: Object.fromEntries(tasks) });
    expect.hasAssertions();
  });

  it(
    'trains by each schedule as one rank, if a batch has fewer rows than microbatches',
    timeout,
    async () => {
      const losses = [
        'a mean over rows',
        'a sum',
        'a mean by the number of rows',
        'crossEntropy',
      ] as const;
      const tasks = schedules.map(({ schedule, stages }, index): [string, EmptyTask] => {
        const loss = losses[index % losses.length] ?? 'crossEntropy';
        const task = { schedule, stages, microbatches, loss, shares: [short(microbatches)] };
        return [`${schedule} in ${stages} stages: ${loss}`, task];
      });
      await expectAllAsAlone({ axes, tasks: Object.fromEntries(tasks) });
      expect.hasAssertions();
    },
  );
});

it(
  'a pipeline makes steps ahead of their verdicts between batches of all kinds',
  timeout,
  async () => {
    const own = [...short(4), ...someIgnored.slice(0, 6), ...short(4)];
    const common = { stages: 2, microbatches: 4, shares: [own], ahead: true } as const;
    const tasks: Record<string, EmptyTask> = {
      '1f1b': { ...common, schedule: '1f1b', loss: 'crossEntropy' },
      gpipe: { ...common, schedule: 'gpipe', loss: 'a masked mean' },
    };
    await expectAllAsAlone({ axes: [{ name: 'pp', size: 2 }], tasks });
    expect.hasAssertions();
  },
);

describe('a pipeline in more dimensions', () => {
  const common = { schedule: '1f1b', stages: 2, microbatches: 4 } as const;
  const none = targetsOf(4, 1, 15);
  const twoRows = targetsOf(2, 1, 0);
  const own = [none, targetsOf(4, 1, 2), none, twoRows];

  it(
    'adds nothing for a share of a batch in which nothing counts, or that has fewer rows',
    timeout,
    async () => {
      const of = (beside: string, shares: EmptyTask['shares']): [string, EmptyTask] => [
        beside,
        { ...common, loss: 'crossEntropy', shares, beside },
      ];
      const others = [targetsOf(4, 1, 9), none, none];
      const tasks = Object.fromEntries([
        ...['DDP', 'ZeRO-2'].map((beside) => of(beside, [own, [...others, targetsOf(4, 1, 0)]])),
        // All shares have as many microbatches, because each microbatch collects parameters.
        ...['ZeRO-3', 'FSDP'].map((beside) => of(beside, [own, [...others, twoRows]])),
      ]);
      const axes = [
        { name: 'pp', size: 2 },
        { name: 'dp', size: 2 },
      ];
      await expectAllAsAlone({ axes, tasks });
      expect.hasAssertions();
    },
  );

  it('a pipeline in more dimensions trains as one rank with layers in parts', timeout, async () => {
    const axes = [
      { name: 'pp', size: 2 },
      { name: 'tp', size: 2 },
    ];
    const withRows = short(4).filter((targets) => targets.length > 0);
    const tasks: Record<string, EmptyTask> = {
      empty: { ...common, loss: 'a masked mean', shares: [someIgnored], inParts: true },
      short: { ...common, loss: 'crossEntropy', shares: [withRows], inParts: true },
    };
    await expectAllAsAlone({ axes, tasks });
    expect.hasAssertions();
  });
});
