import {
  checkSchedule,
  lowerSchedule,
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
  simulateSchedule,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { expectRandomSchedulesToRun, generator } from './expect-random-schedules-to-run.ts';

type Row = readonly [ranks: number, microbatches: number, says: string];

/**
 * The makespan, the idle time of a rank and the live microbatches of each rank. F, I and W take 1 ms each, and messages
 * take no time.
 */
const table: Readonly<Record<string, readonly Row[]>> = {
  'gpipe 1': [
    [2, 4, '15/3/4,4'],
    [4, 4, '21/9/4,4,4,4'],
    [4, 8, '33/9/8,8,8,8'],
    [4, 16, '57/9/16,16,16,16'],
    [8, 16, '69/21/16,16,16,16,16,16,16,16'],
  ],
  '1f1b 1': [
    [2, 4, '15/3/2,1'],
    [4, 4, '21/9/4,3,2,1'],
    [4, 8, '33/9/4,3,2,1'],
    [4, 16, '57/9/4,3,2,1'],
    [8, 16, '69/21/8,7,6,5,4,3,2,1'],
  ],
  'interleaved1f1b 2': [
    [2, 4, '27/3/5,3'],
    [4, 4, '33/9/8,8,7,5'],
    [4, 8, '57/9/11,9,7,5'],
    [4, 16, '105/9/11,9,7,5'],
    [8, 16, '117/21/23,21,19,17,15,13,11,9'],
  ],
  'loopedBfs 2': [[4, 8, '57/9/16,16,16,16']],
  'zb1p 1': [
    [2, 4, '13/1/2,2'],
    [4, 4, '15/3/4,4,4,4'],
    [4, 8, '27/3/4,4,4,4'],
    [4, 16, '51/3/4,4,4,4'],
    [8, 16, '55/7/8,8,8,8,8,8,8,8'],
  ],
  'zb1p 2': [
    [2, 4, '25/1/4,4'],
    [4, 4, '27/3/8,8,8,8'],
    [4, 8, '51/3/8,8,8,8'],
    [4, 16, '99/3/8,8,8,8'],
    [8, 16, '103/7/16,16,16,16,16,16,16,16'],
  ],
  'zb2p 1': [[4, 16, '51/3/7,7,7,7']],
  'zbv 2': [
    [2, 4, '25/1/4,4'],
    [4, 4, '30/6/5,6,7,8'],
    [4, 8, '51/3/8,8,8,8'],
    [4, 16, '99/3/8,8,8,8'],
    [8, 16, '103/7/16,16,16,16,16,16,16,16'],
  ],
  'vMin 2': [
    [4, 16, '107/11/4,4,4,4'],
    [6, 24, '165/21/6,6,6,6,6,6'],
    [8, 32, '219/27/6,8,8,6,8,8,6,8'],
  ],
  'vHalf 2': [
    [4, 16, '108/12/6,6,6,6'],
    [6, 24, '163/19/8,8,8,8,8,8'],
    [8, 32, '218/26/10,10,10,10,10,10,10,10'],
  ],
  'dualPipeV 2': [
    [4, 8, '54/6/9,9,9,9'],
    [4, 10, '66/6/9,9,9,9'],
    [4, 16, '102/6/9,9,9,9'],
    [8, 16, '110/14/17,17,17,17,17,17,17,17'],
  ],
};

const rows = Object.entries(table).flatMap(([key, cases]) => {
  const [name, stagesPerRank] = key.split(' ');
  return cases.map(
    ([ranks, microbatches, says]) =>
      [name as ScheduleName, Number(stagesPerRank), ranks, microbatches, says] as const,
  );
});

describe('the time of a schedule', () => {
  it.each(rows)('%s with %d stages on each of %d ranks, %d microbatches: %s', (...row) => {
    const [name, stagesPerRank, ranks, microbatches, says] = row;
    const simulated = simulateSchedule(
      pipelineSchedule(name, { ranks, stagesPerRank, microbatches }),
    );
    const peaks = simulated.ranks.map((rank) => rank.peakMicrobatches);
    expect(`${simulated.makespanMs}/${simulated.ranks[0]?.idleMs}/${peaks.join()}`).toBe(says);
  });

  it.each([
    ['gpipe', [33, 34.5, 36, 39]],
    ['1f1b', [33, 37, 41, 49]],
    ['zb1p', [27, 30, 33, 41]],
    ['interleaved1f1b', [57, 60.5, 64, 71]],
    ['zbv', [51, 54.25, 57.5, 65]],
    ['dualPipeV', [54, 58.5, 64, 75]],
  ] as const)(
    'grows with the latency of links, for each schedule in its own way: %s',
    (name, times) => {
      const schedule = pipelineSchedule(name, { ranks: 4, microbatches: 8 });
      const simulated = [0, 0.25, 0.5, 1].map(
        (latencyMs) => simulateSchedule(schedule, { link: { latencyMs } }).makespanMs,
      );
      expect(simulated).toEqual(times);
    },
  );

  it('the time of a schedule is without waiting inside for ZB2P and ZBV where all three computations take equally long', () => {
    for (const name of ['zb2p', 'zbv'] as const) {
      const { ranks } = simulateSchedule(pipelineSchedule(name, { ranks: 4, microbatches: 16 }));
      expect(
        ranks.map(({ waitingMs }) => waitingMs),
        name,
      ).toEqual([0, 0, 0, 0]);
    }
    const { ranks } = simulateSchedule(pipelineSchedule('zb1p', { ranks: 4, microbatches: 16 }));
    expect(ranks.map(({ waitingMs }) => waitingMs)).toEqual([3, 2, 1, 0]);
  });

  it('the time of a schedule has the bubbles of the formulas', () => {
    const [ranks, microbatches] = [4, 12];
    const stages = Array.from({ length: ranks }, () => ({
      forwardMs: 3,
      inputGradientMs: 4,
      weightGradientMs: 2,
    }));
    const idle = (name: ScheduleName) =>
      simulateSchedule(pipelineSchedule(name, { ranks, microbatches }), { stages }).ranks[0]
        ?.idleMs;
    // The idle times are (p - 1)(F + B) and (p - 1)(F + I - W).
    expect(idle('gpipe')).toBe(3 * 9);
    expect(idle('1f1b')).toBe(3 * 9);
    expect(idle('zb1p')).toBe(3 * 5);
    expect(idle('naive')).toBe(3 * 9 * microbatches);
  });

  it('the time of a schedule counts the bytes of messages, and of activations between forward and weight gradient', () => {
    const schedule = pipelineSchedule('1f1b', { ranks: 2, microbatches: 2 });
    const stage = { forwardMs: 1, inputGradientMs: 1, weightGradientMs: 1, activationBytes: 10 };
    const edges = [{ from: 0, to: 1, gradient: true, bytes: 5e6 }];
    const simulated = simulateSchedule(
      schedule,
      { stages: [stage, stage], link: { latencyMs: 1, bytesPerSecond: 1e9 } },
      edges,
    );
    // The last rank computes two microbatches of 3 ms. A forward comes before them and a backward after them, with two
    // messages of 1 + 5 ms.
    expect(simulated.makespanMs).toBe(6 + 3 + 12);
    expect(simulated.ranks.map((rank) => rank.peakActivationBytes)).toEqual([20, 10]);
  });

  it('the time of a schedule keeps less between the input gradient and the weight gradient, where the costs say so', () => {
    const schedule = pipelineSchedule('zb1p', { ranks: 2, microbatches: 4 });
    const stage = { forwardMs: 1, inputGradientMs: 1, weightGradientMs: 1, activationBytes: 10 };
    const peak = (weightGradientBytes: number) =>
      simulateSchedule(schedule, {
        stages: [stage, { ...stage, weightGradientBytes }],
      }).ranks[1]?.peakActivationBytes;
    expect([10, 3].map(peak)).toEqual([20, 13]);
  });

  it('hides a share of the shorter half of a pair', () => {
    const schedule = pipelineSchedule('dualPipeV', { ranks: 4, microbatches: 10 });
    const makespan = (hiddenShare: number) =>
      simulateSchedule(schedule, { hiddenShare }).makespanMs;
    expect(makespan(0)).toBe(66);
    expect(makespan(1)).toBeLessThan(makespan(0.5));
    expect(makespan(0.5)).toBeLessThan(makespan(0));
  });

  it('the time of a schedule keeps nothing of forwards alone', () => {
    const { ranks } = simulateSchedule(
      pipelineSchedule('forwardOnly', { ranks: 4, microbatches: 8 }),
    );
    expect(ranks.map(({ peakMicrobatches }) => peakMicrobatches)).toEqual([1, 1, 1, 1]);
  });

  it.each([
    [{ stages: [] }, 'costs of 0 stages. Give costs for each of the 2 stages'],
    [{ link: { latencyMs: -1 } }, 'the link of a schedule with latencyMs: -1'],
    [
      { link: { latencyMs: 1, bytesPerSecond: 0 } },
      'bytesPerSecond: 0: a value that is not a number above 0',
    ],
    [{ hiddenShare: 2 }, 'hiddenShare: 2: a value that is not a number from 0 to 1'],
    [
      { stages: [{ forwardMs: Number.NaN, inputGradientMs: 1, weightGradientMs: 1 }] },
      'costs of 1 stages',
    ],
  ])('needs costs that are times, bytes and shares: %j', (costs, says) => {
    const schedule = pipelineSchedule('1f1b', { ranks: 2, microbatches: 2 });
    expect(() => simulateSchedule(schedule, costs)).toThrow(says);
  });
});

describe('random shapes and costs', () => {
  it('never block, and take no less time than the longest way of a microbatch', () => {
    expectRandomSchedulesToRun(1000, 1);
  });

  it('of edges over any stages can be lowered and run', () => {
    const random = generator(2);
    for (let turn = 0; turn < 300; turn++) {
      const name = scheduleNames[turn % scheduleNames.length] ?? 'naive';
      const schedule = pipelineSchedule(name, { ranks: 3, microbatches: 6 });
      const edges = Array.from({ length: schedule.stages }, (_, from) =>
        Array.from({ length: schedule.stages }, (__, to) => ({
          from,
          to,
          gradient: random() < 0.7,
        })),
      )
        .flat()
        .filter(({ from, to }) => from < to && (to === from + 1 || random() < 0.4));
      checkSchedule(schedule, edges);
      const lowered = lowerSchedule(schedule, { edges });
      const crossing = edges.filter(
        ({ from, to }) => schedule.rankOfStage[from] !== schedule.rankOfStage[to],
      );
      const back = schedule.forwardOnly ? [] : crossing.filter(({ gradient }) => gradient);
      const sends = lowered.actions.flat().filter(({ kind }) => kind.startsWith('send'));
      expect(sends).toHaveLength(6 * (crossing.length + back.length));
    }
  });
});
