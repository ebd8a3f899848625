import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseRankMessage, type RunMessage } from '../src/run-state/run-message.ts';
import { runDirectoryName } from '../src/run-state/run-directory.ts';
import { statesAfter, timeLeft, tokensPerSecond } from '../src/run-state/run-state.ts';
import { otherMs } from '../src/run-state/summary.ts';
import { reports, runOf, stepReport } from './run-fixture.ts';

describe('the state of a run', () => {
  it('counts a step once every rank has reported it', () => {
    const early = runOf([stepReport(0, 1), stepReport(0, 2), stepReport(1, 1)]);
    expect(early.latest?.step).toBe(1);
    expect([...early.pending.keys()]).toEqual([2]);
  });

  it('misses none where one rank is heard long after the other', () => {
    const steps = Array.from({ length: 1000 }, (_, index) => index + 1);
    const { history, pending } = runOf([
      ...steps.map((step) => stepReport(0, step)),
      ...steps.map((step) => stepReport(1, step)),
    ]);
    expect(history.points.map(({ step }) => step)).toEqual(steps);
    expect(pending.size).toBe(0);
  });

  it('waits for the other rank where one does a step again that only it has done', () => {
    const before = [stepReport(0, 1), stepReport(0, 2), stepReport(1, 1)];
    const again = runOf([...before, stepReport(0, 1), stepReport(0, 2, { loss: 8 })]);
    expect(again.latest?.step).toBe(1);
    const { latest } = runOf([
      ...before,
      stepReport(0, 2, { loss: 8 }),
      stepReport(1, 2, { loss: 2 }),
    ]);
    expect(latest).toMatchObject({ step: 2, loss: 5 });
  });

  it('takes the mean loss, the sum of tokens and the slowest rank of a step', () => {
    const { latest } = runOf([
      stepReport(1, 1, { loss: 3, tokens: 10, stepMs: 120, computeMs: 90 }),
      stepReport(0, 1, { loss: 1, tokens: 30, stepMs: 100, computeMs: 70 }),
    ]);
    expect(latest).toMatchObject({ loss: 2, tokens: 40, stepMs: 120, computeMs: 80 });
    expect(latest?.memoryBytes).toEqual([300 * 2 ** 20, 301 * 2 ** 20]);
  });

  it('knows the time that went into none of the parts', () => {
    const { latest } = runOf(reports(1));
    expect(latest && otherMs(latest)).toBe(100 - 70 - 15 - 5 - 4);
  });

  it('estimates the time left from recent steps, not from the first, which compiles', () => {
    const slowStart = reports(3).map((report) =>
      report.step === 1 ? { ...report, stepMs: 60_000 } : report,
    );
    expect(timeLeft(runOf(slowStart))).toBe('ETA 10s');
    expect(tokensPerSecond(runOf(slowStart))).toBe(20_000);
  });

  it('says how long the run took once it is over', () => {
    expect(timeLeft(runOf(reports(100)))).toBe('in 10s');
  });

  it('does the steps after a checkpoint once more where ranks start again', () => {
    const generation = {
      kind: 'generation',
      epoch: 1,
      worldSize: 1,
      transport: 'shm (1 process)',
      hosts: [],
    } as const;
    const timeline = (step: number): RunMessage => ({
      kind: 'timeline',
      rank: 0,
      step,
      startMs: 0,
      endMs: 1,
      events: [],
    });
    const state = runOf([
      ...reports(4),
      timeline(1),
      timeline(4),
      // The other ranks never reported this step.
      stepReport(0, 5),
      { kind: 'exit', rank: 1, code: 137 },
      { ...generation, reason: 'Rank 1 failed', resumeDirectory: 'step-000002' },
      stepReport(0, 3, { loss: 7 }),
    ]);
    expect(state.history.points.map(({ step, loss }) => [step, loss])).toEqual([
      [1, 4],
      [2, 2],
      [3, 7],
    ]);
    expect(state.timelines.map(({ step }) => step)).toEqual([1]);
    expect(state.pending.size).toBe(0);
    expect(state.exitCodes).toEqual([undefined]);
    expect(state.head).toMatchObject({ worldSize: 1, transport: 'shm (1 process)' });
    expect(state.restarts).toEqual([
      { reason: 'Rank 1 failed', worldSize: 1, resumeDirectory: 'step-000002' },
    ]);
  });

  it('counts a step that a lost rank has made and not reported, and forgets what is done again', () => {
    const { history, pending, head, restarts } = runOf([
      ...reports(1),
      // Rank 1 is lost after update 2, and before update 3, which rank 0 has reported.
      stepReport(0, 2, { loss: 5 }),
      stepReport(0, 3, { loss: 9 }),
      { kind: 'membership', worldSize: 1, step: 2, reason: 'Rank 1 was lost' },
      stepReport(0, 3, { loss: 4 }),
    ]);
    expect(history.points.map(({ step, loss }) => [step, loss])).toEqual([
      [1, 4],
      [2, 5],
      [3, 4],
    ]);
    expect(pending.size).toBe(0);
    expect(head.worldSize).toBe(1);
    expect(restarts).toEqual([
      { reason: 'Rank 1 was lost', worldSize: 1, resumeDirectory: undefined },
    ]);
  });

  it('does not know of the end of a rank that is none of those that train', () => {
    const { exitCodes } = runOf([
      { kind: 'membership', worldSize: 1, step: 2, reason: 'Rank 1 was lost' },
      { kind: 'exit', rank: 1, code: 0 },
      { kind: 'exit', rank: 0, code: 0 },
    ]);
    expect(exitCodes).toEqual([0]);
  });

  it('shows each step that a host has made while it was cut off, and has not reported', () => {
    const before = runOf([...reports(1), ...[2, 3, 4, 5].map((step) => stepReport(0, step))]);
    const lost = { kind: 'membership', worldSize: 1, step: 4, reason: 'a host was lost' } as const;
    const states = statesAfter(before, lost);
    expect(states.map(({ latest }) => latest?.step)).toEqual([2, 3, 4, 4]);
    expect(states.at(-1)?.pending.size).toBe(0);
  });

  it('keeps a long run in a limited number of points without losing its mean or its end', () => {
    const steps = 10_000;
    const { history } = runOf(
      Array.from({ length: steps }, (_, index) => stepReport(0, index + 1, { loss: index % 2 })),
      1,
    );
    expect(history.points.length).toBeLessThanOrEqual(2048);
    expect(history.points.reduce((sum, point) => sum + point.steps, 0)).toBe(steps);
    expect(history.points.at(-1)?.step).toBe(steps);
    const losses = history.points.map(({ loss, steps }) => (loss ?? 0) * steps);
    expect(losses.reduce((sum, loss) => sum + loss, 0) / steps).toBeCloseTo(0.5);
  });

  it('keeps the last validation loss when steps are averaged', () => {
    const many = Array.from({ length: 5000 }, (_, index) =>
      stepReport(0, index + 1, index === 4990 ? { validationLoss: 1.25 } : {}),
    );
    const { points } = runOf(many, 1).history;
    expect(points.filter(({ validationLoss }) => validationLoss === 1.25)).toHaveLength(1);
  });
});

describe('a message of a rank', () => {
  it('may carry a loss that has diverged', () => {
    const message = stepReport(0, 1, { loss: NaN, validationLoss: Infinity });
    expect(parseRankMessage(message)).toEqual(message);
  });

  it.each([
    ['no object', 'step'],
    ['of an unknown kind', { kind: 'launch-missiles', rank: 0 }],
    ['without its times', { kind: 'step', rank: 0, step: 1 }],
    ['of a negative rank', stepReport(-1, 1)],
  ])('that is %s is none', (_, value) => {
    expect(parseRankMessage(value)).toBeUndefined();
  });
});

describe("a run directory's name", () => {
  const date = new Date(2026, 0, 31, 9, 5, 7);
  it('says the script and the time', () => {
    expect(runDirectoryName('experiments/lora.ts', date)).toBe(
      join('runs', 'lora-20260131-090507'),
    );
  });

  it.each(['examples/gpt/train.ts', 'gpt/src/main.ts', 'gpt/scripts/index.ts'])(
    'says the folder where the script is called train, main or index: %s',
    (script) => {
      expect(runDirectoryName(script, date)).toBe(join('runs', 'gpt-20260131-090507'));
    },
  );
});
