import { describe, expect, test } from 'vitest';
import {
  namedCluster,
  oneDevice,
  planTraining,
  predict,
  transformer,
  type ExpertsDescription,
} from '@shardwise/planner';

const count = 8;
const mixture = (experts: Partial<ExpertsDescription> = {}) =>
  transformer({
    name: 'a mixture',
    layers: 4,
    hidden: 1024,
    heads: 16,
    vocabulary: 32_000,
    sequence: 1024,
    gated: true,
    biases: false,
    experts: { count, active: 2, ...experts },
  });

const cluster = namedCluster('8xh100');
const seconds = (expertParallel: number, shares?: readonly number[]): number =>
  predict(
    mixture(shares === undefined ? {} : { shares }),
    { ...oneDevice, dataParallel: 8, expertParallel },
    { batch: 8, sequence: 1024 },
    cluster,
  ).terms.compute;

describe('the load of experts', () => {
  test('does not matter on ranks that have all of them', () => {
    const equal = Array.from({ length: count }, () => 1);
    expect(seconds(1)).toBe(seconds(1, equal));
    expect(seconds(1, [8, 0, 0, 0, 0, 0, 0, 0])).toBe(seconds(1, equal));
  });

  test('is that of the busiest rank: equal shares are the mean, and one expert that has all is all ranks in one', () => {
    const equal = Array.from({ length: count }, () => 125);
    expect(seconds(8, equal)).toBe(seconds(1, equal));
    const four = seconds(4, [500, 500, 0, 0, 0, 0, 0, 0]) - seconds(4, equal);
    const eight = seconds(8, [1000, 0, 0, 0, 0, 0, 0, 0]) - seconds(8, equal);
    // The rank that has everything computes 4, and 8, times the mean.
    expect(eight / four).toBeCloseTo(7 / 3, 6);
  });

  test('that is not known deviates less, the more experts a rank has', () => {
    const [two, four, eight] = [2, 4, 8].map((ranks) => seconds(ranks) / seconds(1));
    expect(two).toBeGreaterThan(1);
    expect(four).toBeGreaterThan(two ?? 0);
    expect(eight).toBeGreaterThan(four ?? 0);
  });

  test('is refused for shares of another number of experts, and for none at all', () => {
    expect(() => mixture({ shares: [1, 2] })).toThrow('shares of 2 experts, of 8');
    expect(() => mixture({ shares: Array.from({ length: count }, () => 0) })).toThrow('shares');
  });
});

test('experts are divided among ranks that divide their number', () => {
  const search = { expertParallel: [2, 3], pipelineParallel: [1], tensorParallel: [1] };
  const plan = planTraining({ model: mixture(), cluster: '6xh100', batch: 6, search });
  expect(new Set(plan.ranked.map(({ layout }) => layout.expertParallel))).toEqual(new Set([2]));
  expect(plan.pruned.map(({ reason }) => reason)).toContain('ep does not divide 8 experts');
});
