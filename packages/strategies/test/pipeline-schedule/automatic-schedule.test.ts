import {
  automaticSchedule,
  type AutomaticScheduleOptions,
  balancedPartition,
  checkSchedule,
  explainSchedule,
  pipelineSchedule,
  simulateSchedule,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { generator } from './expect-random-schedules-to-run.ts';

const ones = (count: number): number[] => Array.from({ length: count }, () => 1);

describe('a balanced partition', () => {
  it.each([
    [[1, 2, 1], 2, [0, 1, 3]],
    [[1, 2, 3, 4, 5, 6], 2, [0, 4, 6]],
    [[1, 2, 3, 4, 5, 6], 3, [0, 3, 5, 6]],
    [ones(10), 4, [0, 2, 4, 7, 10]],
    [[5, ...ones(8), 5], 4, [0, 1, 5, 9, 10]],
    [[9, ...ones(7)], 3, [0, 1, 4, 8]],
    [[3, 1, 4, 1, 5, 9, 2, 6], 3, [0, 4, 6, 8]],
    [[0, 0], 2, [0, 1, 2]],
    [[7], 1, [0, 1]],
  ])('of %j in %i parts begins and ends at %j', (costs, parts, boundaries) => {
    const heaviest = (cut: readonly number[]): number =>
      Math.max(...cut.slice(1).map((end, part) => sum(costs.slice(cut[part], end))));
    const found = balancedPartition(costs, parts);
    expect(found).toHaveLength(parts + 1);
    expect(heaviest(found)).toBe(heaviest(boundaries));
  });

  it("a balanced partition is better than DeepSpeed's, whose heaviest part is 13 here", () => {
    expect(balancedPartition([4, 9, 5, 7, 6], 4)).toEqual([0, 1, 2, 4, 5]);
  });

  it('a balanced partition is the best of all cuts, for random costs', () => {
    const random = generator(5);
    for (let turn = 0; turn < 300; turn++) {
      const costs = Array.from({ length: 1 + Math.floor(random() * 9) }, () =>
        turn % 2 === 0 ? random() : Math.floor(random() * 5),
      );
      const parts = 1 + Math.floor(random() * costs.length);
      const boundaries = balancedPartition(costs, parts);
      const weights = boundaries
        .slice(1)
        .map((end, part) => sum(costs.slice(boundaries[part], end)));
      const [heaviest, squares] = bestOf(costs, parts);
      expect(
        boundaries.every((at, index) => index === 0 || at > (boundaries[index - 1] ?? 0)),
      ).toBe(true);
      expect(Math.max(...weights)).toBeCloseTo(heaviest, 12);
      expect(sum(weights.map((weight) => weight ** 2))).toBeCloseTo(squares, 12);
    }
  });

  it.each([
    [
      [1, 2],
      3,
      'a balanced partition of 2 elements into 3 parts: fewer elements than parts. Take 2 parts at most',
    ],
    [[1, 2], 0, '0 parts. Give a whole number from 1'],
    [[1, Number.NaN], 1, 'a cost of NaN at 1'],
    [[1, -1], 1, 'a cost of -1 at 1'],
  ])('is refused for %j in %i parts', (costs, parts, says) => {
    expect(() => balancedPartition(costs, parts)).toThrow(says);
  });
});

const layer = {
  forwardMs: 8,
  inputGradientMs: 8,
  weightGradientMs: 8,
  activationBytes: 800,
  stateBytes: 100,
};
const model: AutomaticScheduleOptions = {
  layers: Array.from({ length: 8 }, () => layer),
  ranks: 4,
  rows: 16,
};

describe('the automatic schedule', () => {
  it('the automatic schedule is the fastest that has room, as simulating each one shows', () => {
    const names = ['gpipe', '1f1b', 'zb1p', 'zbv'] as const;
    const chosen = automaticSchedule({ ...model, schedules: names, microbatches: [4, 8, 16] });
    const times = names.flatMap((name) =>
      [4, 8, 16].map((microbatches) => {
        const schedule = pipelineSchedule(name, { ranks: 4, microbatches });
        const perStage = 64 / schedule.stages / microbatches;
        const stage = {
          forwardMs: perStage,
          inputGradientMs: perStage,
          weightGradientMs: perStage,
        };
        return simulateSchedule(schedule, { stages: schedule.rankOfStage.map(() => stage) })
          .makespanMs;
      }),
    );
    expect(chosen.simulation.makespanMs).toBeCloseTo(Math.min(...times), 9);
    expect(() => checkSchedule(chosen.schedule, chosen.edges)).not.toThrow();
    expect(chosen.boundaries).toHaveLength(chosen.schedule.stages + 1);
  });

  it('the automatic schedule takes less memory where there is less, for more time', () => {
    const [most, less, least] = [Infinity, 1200, 350].map((memoryBytes) =>
      automaticSchedule({ ...model, memoryBytes }),
    );
    for (const [chosen, limit] of [
      [less, 1200],
      [least, 350],
    ] as const) {
      expect(Math.max(...(chosen?.peakBytes ?? []))).toBeLessThanOrEqual(limit);
    }
    expect(less?.simulation.makespanMs).toBeGreaterThanOrEqual(most?.simulation.makespanMs ?? 0);
    expect(least?.simulation.makespanMs).toBeGreaterThan(less?.simulation.makespanMs ?? 0);
  });

  it('the automatic schedule takes fewer microbatches where each action costs more', () => {
    const microbatches = [0, 10].map(
      (overheadMs) => automaticSchedule({ ...model, overheadMs }).schedule.microbatches,
    );
    expect(microbatches[1]).toBeLessThan(microbatches[0] ?? 0);
  });

  it('cuts where the heavy layers are', () => {
    const [first, ...others] = model.layers;
    const heavy = { ...layer, forwardMs: 40, inputGradientMs: 40, weightGradientMs: 40 };
    const { boundaries } = automaticSchedule({
      ...model,
      layers: [...others, ...(first === undefined ? [] : [heavy])],
      stagesPerRank: [1],
    });
    expect(boundaries.slice(-2)).toEqual([7, 8]);
  });

  it.each([
    [
      { memoryBytes: 100 },
      /none of \d+ schedules and cuts fits into memory: the smallest one needs \d+/,
    ],
    [{ ranks: 9 }, '8 layers. Take fewer ranks, or name finer layers'],
    [{ schedules: ['zbv'], stagesPerRank: [1] }, 'no schedule that takes them'],
    [{ rows: 0 }, 'automaticSchedule with rows: 0'],
    [{ layers: [{ ...layer, forwardMs: -1 }] }, 'automaticSchedule, layer 0 with forwardMs: -1'],
  ] as const)('is an error where there is none: %j', (change, says) => {
    expect(() => automaticSchedule({ ...model, ...change })).toThrow(says);
  });
});

describe('the explanation of a schedule', () => {
  it('the explanation of a schedule says per rank what it has, keeps, sends, and how long it works and waits', () => {
    const schedule = pipelineSchedule('zb1p', { ranks: 2, stagesPerRank: 2, microbatches: 4 });
    const stage = { forwardMs: 1, inputGradientMs: 1, weightGradientMs: 1, activationBytes: 100 };
    const edges = [0, 1, 2].map((from) => ({ from, to: from + 1, gradient: true, bytes: 10 }));
    const text = explainSchedule(schedule, { stages: [stage, stage, stage, stage] }, edges);
    expect(text).toBe(
      [
        'zb1p: 4 stages on 2 ranks, 4 microbatches',
        'rank  stages  live  live bytes  sends  sent bytes  works ms  waits ms  inside ms',
        '0     0, 2    4     400         12     120         24        1         1',
        '1     1, 3    4     400         12     120         24        1         0',
        'makespan 25 ms, bubble 4 %, if F, I and W take 1 ms each and messages take no time',
      ].join('\n'),
    );
  });
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}

/** Returns the heaviest part and the sum of squares of the best cut. It tries all cuts. */
function bestOf(costs: readonly number[], parts: number): [heaviest: number, squares: number] {
  if (parts === 1) return [sum(costs), sum(costs) ** 2];
  let best: [number, number] = [Infinity, Infinity];
  for (let cut = 1; cut <= costs.length - parts + 1; cut++) {
    const first = sum(costs.slice(0, cut));
    for (const [heaviest, squares] of allOf(costs.slice(cut), parts - 1)) {
      const found: [number, number] = [Math.max(first, heaviest), first ** 2 + squares];
      const isLess = found[0] < best[0] - 1e-12;
      if (isLess || (found[0] <= best[0] + 1e-12 && found[1] < best[1])) best = found;
    }
  }
  return best;
}

function allOf(costs: readonly number[], parts: number): [number, number][] {
  if (parts === 1) return [[sum(costs), sum(costs) ** 2]];
  return Array.from({ length: costs.length - parts + 1 }, (_, index) => index + 1).flatMap((cut) =>
    allOf(costs.slice(cut), parts - 1).map(([heaviest, squares]): [number, number] => {
      const first = sum(costs.slice(0, cut));
      return [Math.max(first, heaviest), first ** 2 + squares];
    }),
  );
}
