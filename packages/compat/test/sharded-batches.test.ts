import { describe, expect, it } from 'vitest';
import { shardOf } from '../src/accelerate/sharded-loader.ts';

const batches = (length: number, rank: number, options: object = {}): readonly number[][] => {
  const shards = { ranks: 2, rank, batchSize: 3, dropLast: false, evenBatches: true, ...options };
  const positions = shardOf(length, shards);
  return Array.from({ length: Math.ceil(positions.length / shards.batchSize) }, (_, batch) =>
    positions.slice(batch * shards.batchSize, (batch + 1) * shards.batchSize),
  );
};

describe('batches of two ranks, of three rows each', () => {
  it('go to the ranks in turns', () => {
    expect(batches(24, 0).slice(0, 2)).toEqual([
      [0, 1, 2],
      [6, 7, 8],
    ]);
    expect(batches(24, 1).at(-1)).toEqual([21, 22, 23]);
  });

  it.each([
    [21, [18, 19, 20], [0, 1, 2]],
    [22, [18, 19, 20], [21, 0, 1]],
    [20, [18, 19, 0], [1, 2, 3]],
    [2, [0, 1, 0], [1, 0, 1]],
  ])('of %i rows are filled up from the first ones', (length, first, second) => {
    expect(batches(length, 0).at(-1)).toEqual(first);
    expect(batches(length, 1).at(-1)).toEqual(second);
    expect(batches(length, 0)).toHaveLength(batches(length, 1).length);
  });

  it.each([
    [22, [18, 19, 20], [21]],
    [20, [18, 19], [15, 16, 17]],
    [2, [0, 1], undefined],
  ])('of %i rows are left as they are if they need not be even', (length, first, second) => {
    expect(batches(length, 0, { evenBatches: false }).at(-1)).toEqual(first);
    expect(batches(length, 1, { evenBatches: false }).at(-1)).toEqual(second);
  });

  it('of which not every rank has one are left out with dropLast', () => {
    expect(batches(22, 0, { dropLast: true }).at(-1)).toEqual([12, 13, 14]);
    expect(batches(22, 1, { dropLast: true }).at(-1)).toEqual([15, 16, 17]);
  });
});

describe('batches of four rows that two ranks split', () => {
  it.each([
    [22, [20, 21], [0, 1]],
    [21, [20, 0], [1, 2]],
  ])('of %i rows are filled up from the first ones', (length, first, second) => {
    expect(batches(length, 0, { batchSize: 2 }).at(-1)).toEqual(first);
    expect(batches(length, 1, { batchSize: 2 }).at(-1)).toEqual(second);
  });
});
