import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runCases } from '../../../test/support/run-cases.ts';
import { type differences, names, observations } from './ranks/step-settings.ts';

const size = 2;
const ranks = new URL('./ranks/step-settings.ts', import.meta.url);

interface Training {
  readonly strategy: string;
  readonly difference: (typeof differences)[number];
  readonly readers: readonly number[];
}

const messages = [
  ['lr', 'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.'],
  ['lr of a group', 'AdamW.step(): lr'],
  ['weightDecay', 'AdamW.step(): weightDecay is 0.25 on rank 0 and 0.5 on rank 1.'],
  ['betas', 'AdamW.step(): betas is [0.9, 0.999] on rank 0 and [0.9, 0.99] on rank 1.'],
  ['maxNorm', 'clipGradNorm(): maxNorm is 1 on rank 0 and 2 on rank 1.'],
  ['no clipping', 'what it calls is clipGradNorm() on rank 0 and AdamW.step() on rank 1.'],
  ['scale', 'scale is 8 on rank 0 and 4 on rank 1.'],
  ['optimizer', 'what it calls is AdamW.step() on rank 0 and Adam.step() on rank 1.'],
] as const;
const earlyReaders = [[0], [1], [0, 1]] as const;

const trainings: readonly Training[] = [
  ...messages.map(([difference]) => ({ strategy: 'ddp', difference, readers: [] })),
  ...names.map((strategy) => ({ strategy, difference: 'lr', readers: [] }) as const),
  { strategy: 'ddp', difference: 'scheduler', readers: [] },
  ...earlyReaders.map((readers) => ({ strategy: 'ddp', difference: 'lr', readers }) as const),
  ...names.flatMap((strategy) =>
    [[], [1]].map((readers) => ({ strategy, difference: 'nothing', readers }) as const),
  ),
];

const trained = new Map<string, readonly z.infer<typeof observations>[]>();

beforeAll(async () => {
  const found = await runCases(
    size,
    ranks,
    trainings.map((data) => ({ data })),
  );
  for (const [index, training] of trainings.entries()) {
    const ofRanks = z.array(observations).length(size).parse(found[index]);
    trained.set(JSON.stringify(training), ofRanks);
  }
}, 120_000);

/** What the ranks have seen of a training. */
function train(
  strategy: string,
  difference: Training['difference'],
  readers: readonly number[] = [],
): readonly z.infer<typeof observations>[] {
  const found = trained.get(JSON.stringify({ strategy, difference, readers }));
  if (found === undefined) throw new RangeError('a training that is not among the cases');
  return found;
}

describe('a setting that one rank has otherwise', () => {
  it.each(messages)('is the error of that step on all ranks, with ddp: %s', (name, message) => {
    for (const { steps, error, isUnchanged } of train('ddp', name)) {
      expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      expect(error?.message).toContain(message);
      expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
    }
  });

  it.each(names)('is the error of that step on all ranks, with %s', (strategy) => {
    for (const { steps, error, isUnchanged } of train(strategy, 'lr')) {
      expect(error?.message).toContain('AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1.');
      expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
      expect({ steps, isUnchanged }).toEqual({ steps: 1, isUnchanged: true });
    }
  });

  it('because it forgot to step its scheduler is the error of the step after that', () => {
    for (const { steps, error } of train('ddp', 'scheduler')) {
      expect(error?.message).toContain(
        'AdamW.step(): lr is 0.00025 on rank 0 and 0.0005 on rank 1.',
      );
      expect(steps).toBe(2);
    }
  });

  it.each(earlyReaders.map((readers) => [readers]))(
    'is the error of the next step if ranks %s have read the loss before the step',
    (readers) => {
      for (const { steps, error } of train('ddp', 'lr', readers)) {
        expect(error).toMatchObject({ code: 'COLLECTIVE_MISMATCH' });
        expect(error?.message).toContain(
          'AdamW.step(): lr is 0.001 on rank 0 and 0.002 on rank 1, in a step that was made already.',
        );
        expect(steps).toBe(2);
      }
    },
  );
});

it.each(names)('equal settings are no error, whoever reads early: %s', (strategy) => {
  for (const readers of [[], [1]]) {
    for (const { steps, error } of train(strategy, 'nothing', readers)) {
      expect({ steps, error }).toEqual({ steps: 4, error: null });
    }
  }
});

it('ranks that train models of their own, or declare that theirs vary, may have settings of their own', async () => {
  const cases = [false, true].map((data) => ({ name: 'apart', data }));
  const ofRanks = [
    [1, 3, 5],
    [1, 3, 5],
  ];
  expect(await runCases(size, ranks, cases)).toEqual([ofRanks, ofRanks]);
});
