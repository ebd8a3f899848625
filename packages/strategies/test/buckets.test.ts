import { describe, expect, it } from 'vitest';
import { assignBuckets } from '../src/distributed-data-parallel/buckets.ts';

const f = (count: number) => ({ shape: [count], dtype: 'f32' as const });
const d = (count: number) => ({ shape: [count], dtype: 'f64' as const });

/** The cases of PyTorch's ComputeBucketAssignmentTest. */
const cases = [
  {
    name: 'one limit for one dtype',
    items: [f(100), f(200), f(100), f(50)],
    limits: [400],
    buckets: [[0], [1], [2], [3]],
    sizes: [400, 400, 400, 400],
  },
  {
    name: 'one limit for two dtypes',
    items: [f(50), d(25), f(50), d(25), f(50), d(25)],
    limits: [400],
    buckets: [[0, 2], [1, 3], [4], [5]],
    sizes: [400, 400, 400, 400],
  },
  {
    name: 'two limits for one dtype',
    items: [f(10), f(10), f(10), f(10)],
    limits: [40, 80],
    buckets: [[0], [1, 2], [3]],
    sizes: [40, 80, 80],
  },
  {
    name: 'two limits for two dtypes',
    items: [f(50), d(25), f(50), d(25), f(50), d(25)],
    limits: [200, 400],
    buckets: [[0], [1], [2, 4], [3, 5]],
    sizes: [200, 200, 400, 400],
  },
];

describe('assignBuckets', () => {
  for (const { name, items, limits, buckets, sizes } of cases) {
    it(`follows PyTorch with ${name}`, () => {
      const assigned = assignBuckets(items, limits);
      expect(assigned.map(({ indices }) => indices)).toEqual(buckets);
      expect(assigned.map(({ limitBytes }) => limitBytes)).toEqual(sizes);
    });
  }

  it('assignBuckets gives no buckets for no parameters', () => {
    expect(assignBuckets([], [400])).toEqual([]);
  });
});
