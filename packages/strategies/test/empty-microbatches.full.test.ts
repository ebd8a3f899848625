import type { MeshAxis } from '@shardwise/core';
import type { ScheduleName } from '@shardwise/strategies';
import { describe, it } from 'vitest';
import { type EmptyTask, expectOnMesh, ignored } from './empty-microbatch-cases.ts';
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
  /** A task for each schedule, with one of these losses. */
  const tasksOf = (
    losses: readonly EmptyTask['loss'][],
    batchesOf: (schedule: ScheduleName, index: number) => readonly number[][],
  ): EmptyTask[] =>
    schedules.map(({ schedule, stages }, index) => {
      const loss = losses[index % losses.length] ?? 'crossEntropy';
      return { schedule, stages, microbatches, loss, shares: [batchesOf(schedule, index)] };
    });

  it.each(
    tasksOf(['crossEntropy', 'a masked mean', 'a mean of at least one'], (schedule, index) => {
      // Plain 1F1B has batches of all kinds, and each other schedule a third of them.
      if (ranks === 4) return [1, 0b1110_1111, 0b1000_0110, 255].map((set) => targetsOf(8, 1, set));
      if (schedule === '1f1b') return someIgnored;
      return someIgnored.filter((_, at) => at % 3 === Math.floor(index / 3) % 3);
    }),
  )(
    'trains as one rank, whichever microbatches are empty: $schedule in $stages stages, $loss',
    timeout,
    (task) => expectOnMesh(axes, task),
  );

  it.each(
    tasksOf(['a mean over rows', 'a sum', 'a mean by the number of rows', 'crossEntropy'], () =>
      short(microbatches),
    ),
  )(
    'trains as one rank, if a batch has fewer rows than microbatches: $schedule in $stages stages, $loss',
    timeout,
    (task) => expectOnMesh(axes, task),
  );
});

const common = { schedule: '1f1b', stages: 2, microbatches: 4 } as const;

it.each<Pick<EmptyTask, 'schedule' | 'loss'>>([
  { schedule: '1f1b', loss: 'crossEntropy' },
  { schedule: 'gpipe', loss: 'a masked mean' },
])(
  'a pipeline makes steps ahead of their verdicts between batches of all kinds: $schedule',
  timeout,
  (of) => {
    const shares = [[...short(4), ...someIgnored.slice(0, 6), ...short(4)]];
    return expectOnMesh([{ name: 'pp', size: 2 }], { ...common, ...of, shares, ahead: true });
  },
);

describe('a pipeline in more dimensions', () => {
  const none = targetsOf(4, 1, 15);
  const twoRows = targetsOf(2, 1, 0);
  // All shares have as many microbatches beside ZeRO-3 and FSDP, because each microbatch collects parameters.
  const last = {
    DDP: targetsOf(4, 1, 0),
    'ZeRO-2': targetsOf(4, 1, 0),
    'ZeRO-3': twoRows,
    FSDP: twoRows,
  };

  it.each(Object.entries(last))(
    'adds nothing for a share of a batch in which nothing counts, or that has fewer rows, beside %s',
    timeout,
    (beside, ofLast) => {
      const axes = ['pp', 'dp'].map((name) => ({ name, size: 2 }));
      const shares = [
        [none, targetsOf(4, 1, 2), none, twoRows],
        [targetsOf(4, 1, 9), none, none, ofLast],
      ];
      return expectOnMesh(axes, { ...common, loss: 'crossEntropy', shares, beside });
    },
  );

  it.each<[string, Pick<EmptyTask, 'loss' | 'shares'>]>([
    ['empty', { loss: 'a masked mean', shares: [someIgnored] }],
    ['short', { loss: 'crossEntropy', shares: [short(4).filter((targets) => targets.length > 0)] }],
  ])('trains as one rank with layers in parts: %s', timeout, (_, of) => {
    const axes = ['pp', 'tp'].map((name) => ({ name, size: 2 }));
    return expectOnMesh(axes, { ...common, ...of, inParts: true });
  });
});
