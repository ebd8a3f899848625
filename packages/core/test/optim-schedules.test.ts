import { describe, expect, test } from 'vitest';
import { LearningRateScheduler } from '../src/optim/learning-rate-scheduler.ts';
import {
  constantSchedule,
  cosineSchedule,
  exponentialSchedule,
  linearSchedule,
  multiStepSchedule,
  type Schedule,
  stepSchedule,
  warmupSchedule,
} from '../src/optim/schedules.ts';
import { CheckpointError, ConfigError } from '../src/spec/errors.ts';

describe('factors follow the closed forms of PyTorch', () => {
  const quarter = 0.5 * (1 + Math.SQRT1_2);
  test.each<[string, Schedule, Record<number, number>]>([
    ['constant', constantSchedule(), { 0: 1, 99: 1 }],
    ['LinearLR', linearSchedule(4, 0.2), { 0: 1, 1: 0.8, 2: 0.6, 4: 0.2, 9: 0.2 }],
    ['StepLR', stepSchedule(3, 0.5), { 0: 1, 2: 1, 3: 0.5, 6: 0.25 }],
    ['MultiStepLR', multiStepSchedule([2, 5], 0.1), { 1: 1, 2: 0.1, 4: 0.1, 5: 0.01 }],
    ['ExponentialLR', exponentialSchedule(0.9), { 0: 1, 1: 0.9, 3: 0.729 }],
    ['CosineAnnealingLR', cosineSchedule(8), { 0: 1, 2: quarter, 4: 0.5, 8: 0, 20: 0 }],
    [
      'CosineAnnealingLR with eta_min',
      cosineSchedule(8, 0.1),
      { 0: 1, 2: 0.1 + 0.9 * quarter, 4: 0.55, 8: 0.1 },
    ],
    [
      'warm-up, then cosine',
      warmupSchedule(4, cosineSchedule(8)),
      { 0: 0, 1: 0.25, 4: 1, 6: quarter, 8: 0.5, 12: 0 },
    ],
    [
      'warm-up, then linear',
      warmupSchedule(2, linearSchedule(4)),
      { 0: 0, 1: 0.5, 2: 1, 3: 0.75, 6: 0 },
    ],
    ['warm-up of 0 steps', warmupSchedule(0), { 0: 1 }],
  ])('%s', (_, schedule, expected) => {
    for (const [step, factor] of Object.entries(expected))
      expect(schedule(Number(step))).toBeCloseTo(factor, 12);
  });

  test('and refuse lengths that are no positive integers', () => {
    expect(() => cosineSchedule(0)).toThrow(ConfigError);
    expect(() => linearSchedule(2.5)).toThrow(ConfigError);
    expect(() => warmupSchedule(-1)).toThrow(ConfigError);
  });

  test.each<[string, () => Schedule, string]>([
    [
      'a factor as a text',
      () => exponentialSchedule('x' as never),
      "exponentialSchedule with gamma: 'x': a value that is not a number",
    ],
    ['no factor', () => exponentialSchedule(undefined as never), 'no option gamma'],
    [
      'a factor that is NaN',
      () => cosineSchedule(10, Number.NaN),
      'cosineSchedule with minFactor: NaN',
    ],
    ['an end as a text', () => linearSchedule(10, '0' as never), "with endFactor: '0'"],
    ['one milestone alone', () => multiStepSchedule(5 as never), 'with milestones: 5'],
    [
      'a factor in the place of what follows the warm-up',
      () => warmupSchedule(2, 0.5 as never),
      'warmupSchedule with decay: 0.5: a value that is not a schedule, as optim.cosineSchedule(1000)',
    ],
  ])('and refuse %s where they are made', (_, make, says) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(says);
  });
});

describe('LearningRateScheduler', () => {
  const groups = () => ({ paramGroups: [{ lr: 1 }, { lr: 10 }] });

  test.each<[string, () => unknown, string]>([
    [
      'parameters in the place of the optimizer',
      () => new LearningRateScheduler([1, 2] as never, () => 1),
      'a LearningRateScheduler of [1, 2]: no optimizer, whose parameter groups have learning rates. Pass the optimizer',
    ],
    [
      'a factor in the place of a schedule',
      () => new LearningRateScheduler(groups(), 0.9 as never),
      'with the schedule 0.9: no function from the step to a factor. Give a schedule, as optim.exponentialSchedule(0.9)',
    ],
    [
      'no schedule',
      () => new LearningRateScheduler(groups(), undefined as never),
      'with the schedule undefined',
    ],
    [
      'a factor among schedules',
      () => new LearningRateScheduler(groups(), [() => 1, 0.9 as never]),
      'with the schedule 0.9',
    ],
  ])('refuses %s', (_, make, says) => {
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(says);
  });

  test('scales the rate that each group had at construction', () => {
    const optimizer = groups();
    const scheduler = new LearningRateScheduler(optimizer, warmupSchedule(2));
    expect(scheduler.learningRates).toEqual([0, 0]);
    scheduler.step();
    expect(optimizer.paramGroups).toEqual([{ lr: 0.5 }, { lr: 5 }]);
  });

  test('takes a schedule per group', () => {
    const scheduler = new LearningRateScheduler(groups(), [
      exponentialSchedule(0.5),
      constantSchedule(),
    ]);
    scheduler.step();
    scheduler.step();
    expect(scheduler.learningRates).toEqual([0.25, 10]);
    expect(() => new LearningRateScheduler(groups(), [constantSchedule()])).toThrow(ConfigError);
  });

  test('continues from a state that went through JSON', () => {
    const scheduler = new LearningRateScheduler(groups(), stepSchedule(2));
    scheduler.step();
    const other = new LearningRateScheduler(
      { paramGroups: [{ lr: 7 }, { lr: 7 }] },
      stepSchedule(2),
    );
    other.loadStateDict(JSON.parse(JSON.stringify(scheduler.stateDict())));
    scheduler.step();
    other.step();
    expect(other.learningRates).toEqual(scheduler.learningRates);
    expect(other.learningRates).toEqual([0.1, 1]);
  });

  test('refuses the state of other groups', () => {
    const scheduler = new LearningRateScheduler(groups(), constantSchedule());
    expect(() => scheduler.loadStateDict({ step: 1, baseLearningRates: [1] })).toThrow(
      CheckpointError,
    );
    expect(() => scheduler.loadStateDict({ step: -1, baseLearningRates: [1, 2] })).toThrow(
      CheckpointError,
    );
  });
});
