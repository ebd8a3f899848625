import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BatchSampler } from '../src/data/batch-sampler.ts';
import { DistributedSampler } from '../src/data/distributed-sampler.ts';
import { RandomSampler } from '../src/data/random-sampler.ts';
import { SequentialSampler } from '../src/data/sequential-sampler.ts';
import { WeightedRandomSampler } from '../src/data/weighted-random-sampler.ts';
import { Generator } from '../src/random/generator.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { golden, indicesText, sha256 } from './golden/random.ts';

interface Share {
  dataset: number;
  numReplicas: number;
  seed?: number;
  shuffle?: boolean;
  dropLast?: boolean;
  repeats?: boolean;
}

function shares(options: Share, epoch = 0): number[][] {
  return Array.from({ length: options.numReplicas }, (_, rank) => {
    const sampler = new DistributedSampler({ ...options, rank });
    sampler.setEpoch(epoch);
    const share = [...sampler];
    expect(share).toHaveLength(sampler.length);
    return share;
  });
}

describe('DistributedSampler', () => {
  test.each(golden.distributedSampler)('gives PyTorch’s indices: $sampler', (row) => {
    const [dataset = 0, numReplicas = 0, seed = 0, epoch = 0] = row.sampler.split(' ').map(Number);
    const dropLast = row.sampler.includes('drop');
    const shuffle = row.sampler.includes('shuffle');
    const groups = shares({ dataset, numReplicas, seed, shuffle, dropLast }, epoch);
    const text = row.result.startsWith('sha256')
      ? groups.map((group) => sha256(Int32Array.from(group))).join(' | ')
      : indicesText(groups);
    expect(text).toBe(row.result);
  });

  test('pads ten items for three ranks with the first ones, or drops the last', () => {
    expect(shares({ dataset: 10, numReplicas: 3 })).toEqual([
      [4, 5, 0, 2],
      [1, 3, 8, 4],
      [7, 9, 6, 1],
    ]);
    expect(shares({ dataset: 10, numReplicas: 3 }, 1)).toEqual([
      [5, 2, 9, 4],
      [6, 0, 3, 5],
      [1, 8, 7, 6],
    ]);
    expect(shares({ dataset: 10, numReplicas: 3, dropLast: true })).toEqual([
      [4, 5, 0],
      [1, 3, 8],
      [7, 9, 6],
    ]);
    expect(shares({ dataset: 2, numReplicas: 5, shuffle: false })).toEqual([
      [0],
      [1],
      [0],
      [1],
      [0],
    ]);
  });

  const options = fc.record({
    dataset: fc.nat({ max: 200 }),
    numReplicas: fc.integer({ min: 1, max: 9 }),
    seed: fc.nat(),
    shuffle: fc.boolean(),
  });

  test('gives all ranks equally many items, whatever the remainder', () => {
    fc.assert(
      fc.property(options, fc.boolean(), fc.nat({ max: 9 }), (share, dropLast, epoch) => {
        const lengths = shares({ ...share, dropLast }, epoch).map((items) => items.length);
        expect(new Set(lengths).size).toBe(1);
      }),
    );
  });

  test('padding covers every item and repeats fewer than there are ranks', () => {
    fc.assert(
      fc.property(options, (share) => {
        const items = shares(share).flat();
        expect(new Set(items).size).toBe(share.dataset);
        expect(items.length - share.dataset).toBeLessThan(share.numReplicas);
      }),
    );
  });

  test('without repeats, ranks have the same items as with them, except for the repeats', () => {
    fc.assert(
      fc.property(options, fc.nat({ max: 9 }), (share, epoch) => {
        const once = shares({ ...share, repeats: false }, epoch);
        const items = once.flat();
        expect(items).toHaveLength(share.dataset);
        expect(new Set(items).size).toBe(share.dataset);
        for (const [rank, repeated] of shares(share, epoch).entries()) {
          const own = once[rank] ?? [];
          expect(repeated.slice(0, own.length)).toEqual(own);
          expect(repeated.length - own.length).toBeLessThanOrEqual(share.dataset === 0 ? 0 : 1);
        }
      }),
    );
  });

  test('cannot visit each item once and leave the last ones out', () => {
    const make = (): unknown =>
      new DistributedSampler({
        dataset: 5,
        numReplicas: 2,
        rank: 0,
        repeats: false,
        dropLast: true,
      });
    expect(make).toThrow('a distributed sampler with repeats: false and dropLast: true');
  });

  test('dropping gives disjoint shares and loses fewer items than there are ranks', () => {
    fc.assert(
      fc.property(options, (share) => {
        const items = shares({ ...share, dropLast: true }).flat();
        expect(new Set(items).size).toBe(items.length);
        expect(share.dataset - items.length).toBeLessThan(share.numReplicas);
      }),
    );
  });

  test('epoch and seed add up, and without shuffling do nothing', () => {
    const at = (seed: number, epoch: number, shuffle: boolean): number[][] =>
      shares({ dataset: 50, numReplicas: 2, seed, shuffle }, epoch);
    expect(at(3, 4, true)).toEqual(at(7, 0, true));
    expect(at(3, 4, true)).not.toEqual(at(3, 5, true));
    expect(at(3, 4, false)).toEqual(at(0, 0, false));
  });

  test('takes the length from a dataset', () => {
    const sampler = new DistributedSampler({ dataset: [7, 8, 9], numReplicas: 2, rank: 1 });
    expect(sampler.length).toBe(2);
  });

  test.each([3, -1, 0.5])('refuses rank %d of 3 in PyTorch’s words', (rank) => {
    const make = (): unknown => new DistributedSampler({ dataset: 9, numReplicas: 3, rank });
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(`Invalid rank ${rank}, rank should be in the interval [0, 2]`);
  });

  test.each([
    { dataset: -1, numReplicas: 1, rank: 0 },
    { dataset: 4, numReplicas: 0, rank: 0 },
    { dataset: 4, numReplicas: 1, rank: 0, seed: 0.5 },
  ])('refuses %o', (bad) => {
    expect(() => new DistributedSampler(bad)).toThrow(ConfigError);
  });
});

describe('RandomSampler', () => {
  test.each(golden.randomSampler)(
    'with a generator gives PyTorch’s two epochs: $sampler',
    (row) => {
      const [length = 0, numSamples = 0, , seed = 0] = row.sampler.split(' ').map(Number);
      const sampler = new RandomSampler({
        length,
        numSamples,
        replacement: row.sampler.includes('replacement'),
        generator: new Generator(seed),
      });
      expect(indicesText([[...sampler], [...sampler]])).toBe(row.result);
    },
  );

  test('with a seed is DistributedSampler of one rank', () => {
    const random = new RandomSampler({ length: 20, seed: 3 });
    random.setEpoch(2);
    expect([[...random]]).toEqual(shares({ dataset: 20, numReplicas: 1, seed: 3 }, 2));
    expect([...random]).toEqual([...random]);
  });

  test('refuses an empty dataset, as PyTorch does', () => {
    expect(() => new RandomSampler({ length: 0 })).toThrow(ConfigError);
  });
});

describe('BatchSampler', () => {
  test.each(golden.batchSampler)('makes PyTorch’s batches: $batches', ({ batches, result }) => {
    const [length = 0, size = 0] = batches.split(' ').map(Number);
    const sampler = new BatchSampler(new SequentialSampler(length), size, batches.includes('drop'));
    expect(indicesText(sampler)).toBe(result);
    expect([...sampler]).toHaveLength(sampler.length);
  });

  test('refuses an empty batch', () => {
    expect(() => new BatchSampler(new SequentialSampler(3), 0)).toThrow(ConfigError);
  });
});

describe('WeightedRandomSampler', () => {
  test.each(golden.weightedRandomSampler)(
    'with a generator gives PyTorch’s two epochs, and leaves its stream: $sampler',
    ({ sampler: row, result }) => {
      const [weights = '', samples, kind, seed] = row.split(' ');
      const generator = new Generator(Number(seed));
      const sampler = new WeightedRandomSampler({
        weights: weights.split(',').map(Number),
        numSamples: Number(samples),
        replacement: kind === 'replacement',
        generator,
      });
      const epochs = [[...sampler], [...sampler], [...generator.randint(0, 1000, 1)]];
      expect(indicesText(epochs)).toBe(result);
    },
  );

  test('with a seed gives every rank its items of one order, another one each epoch', () => {
    const make = (numReplicas: number, rank: number): WeightedRandomSampler =>
      new WeightedRandomSampler({ weights: [1, 2, 3], numSamples: 12, seed: 4, numReplicas, rank });
    const whole = [...make(1, 0)];
    const parts = [0, 1, 2].map((rank) => [...make(3, rank)]);
    expect(parts.map((part) => part.length)).toEqual([4, 4, 4]);
    expect(whole.map((_, i) => parts[i % 3]?.[Math.floor(i / 3)])).toEqual(whole);
    const later = make(1, 0);
    later.setEpoch(1);
    expect([...later]).not.toEqual(whole);
  });

  test('tells loaders with other weights apart', () => {
    const settings = (...weights: number[]): unknown =>
      new WeightedRandomSampler({ weights, numSamples: 2 }).settings;
    expect(settings(1, 2)).toEqual(settings(1, 2));
    expect(settings(1, 2)).not.toEqual(settings(2, 1));
  });

  test.each<[string, object, string]>([
    ['a negative weight', { weights: [1, -1], numSamples: 1 }, '-1 as weight 1'],
    ['a weight that is NaN', { weights: [Number.NaN], numSamples: 1 }, 'NaN as weight 0'],
    ['no weight above 0', { weights: [0, 0], numSamples: 1 }, '0 weights above 0'],
    [
      'more items than have a weight, without replacement',
      { weights: [1, 0, 1], numSamples: 3, replacement: false },
      '2 weights above 0, of which 3 different items',
    ],
    [
      'items that the ranks do not divide',
      { weights: [1], numSamples: 3, numReplicas: 2 },
      'Make numSamples a multiple of numReplicas',
    ],
    [
      'a seed beside a generator',
      { weights: [1], numSamples: 1, seed: 1, generator: new Generator() },
      'a seed together with a generator',
    ],
  ])('refuses %s', (_, options, says) => {
    const make = (): unknown => new WeightedRandomSampler(options as never);
    expect(make).toThrow(ConfigError);
    expect(make).toThrow(says);
  });
});
