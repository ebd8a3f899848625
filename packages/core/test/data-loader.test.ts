import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ArrayDataset } from '../src/data/array-dataset.ts';
import { DataLoader, type DataLoaderOptions } from '../src/data/data-loader.ts';
import type { Dataset } from '../src/data/dataset.ts';
import { DistributedSampler } from '../src/data/distributed-sampler.ts';
import { type NDArray, ndArray } from '../src/tensor/nd-array.ts';
import { Generator } from '../src/random/generator.ts';
import { randomState } from '../src/random/keys.ts';
import { ConfigError, DataError } from '../src/spec/errors.ts';
import { golden, indicesText } from './golden/random.ts';

type Item = { readonly item: NDArray<'i32'> };
interface WorldOptions {
  readonly items: number;
  readonly shuffle: boolean;
  /**
   * Whether to drop a last batch that is too small. `dropItems` says whether to drop items that do not divide among the
   * ranks.
   */
  readonly dropLast: boolean;
  readonly dropItems: boolean;
}
type Options = Omit<DataLoaderOptions<Item>, 'dataset'> & { readonly items?: number };

function loaderOf({ items = 10, ...options }: Options): DataLoader<Item> {
  const item = ndArray(Int32Array.from({ length: items }, (_, i) => i));
  return new DataLoader({ ...options, dataset: new ArrayDataset({ item }) });
}

async function epochOf(loader: DataLoader<Item>): Promise<number[][]> {
  const batches: number[][] = [];
  for await (const batch of loader) batches.push([...batch.item.data]);
  return batches;
}

async function take(loader: DataLoader<Item>, count: number): Promise<number[][]> {
  const batches: number[][] = [];
  if (count === 0) return batches;
  for await (const batch of loader) {
    batches.push([...batch.item.data]);
    if (batches.length === count) break;
  }
  return batches;
}

describe('the order of batches', () => {
  test('is the dataset’s, a small batch last', async () => {
    const loader = loaderOf({ batchSize: 4 });
    expect(loader).toHaveLength(3);
    expect(await epochOf(loader)).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [8, 9],
    ]);
  });

  test('leaves the small batch out where it is dropped', async () => {
    const loader = loaderOf({ batchSize: 4, dropLast: true });
    expect(loader).toHaveLength(2);
    expect(await epochOf(loader)).toHaveLength(2);
  });

  test.each(golden.dataLoader)('with a generator is PyTorch’s: $loader', async (row) => {
    const [items = 0, batchSize = 0, , seed = 0] = row.loader.split(' ').map(Number);
    const dropLast = row.loader.includes('drop');
    const generator = new Generator(seed);
    const loader = loaderOf({ items, batchSize, dropLast, shuffle: true, generator });
    const epochs = [(await epochOf(loader)).flat(), (await epochOf(loader)).flat()];
    expect(indicesText(epochs)).toBe(row.result);
  });

  test('with a seed is DistributedSampler’s of one rank, and does not depend on prefetching', async () => {
    for (const prefetch of [0, 1, 5, 100]) {
      const shuffled = loaderOf({ batchSize: 3, shuffle: true, seed: 4, prefetch });
      const sampler = new DistributedSampler({ dataset: 10, numReplicas: 1, rank: 0, seed: 4 });
      const sampled = loaderOf({ batchSize: 3, sampler, prefetch });
      expect(await epochOf(shuffled)).toEqual(await epochOf(sampled));
      expect(await epochOf(shuffled)).toEqual(await epochOf(sampled));
    }
  });

  test('covers every item once over the ranks', async () => {
    const epochs = await Promise.all(
      [0, 1].map((rank) => {
        const sampler = new DistributedSampler({ dataset: 10, numReplicas: 2, rank });
        return epochOf(loaderOf({ batchSize: 2, sampler }));
      }),
    );
    expect(epochs.flat(2).sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });
});

describe('epochs', () => {
  test('follow each other without being told, also where one is left early', async () => {
    const loader = loaderOf({ shuffle: true });
    const told = loaderOf({ shuffle: true });
    expect(loader.epoch).toBe(0);
    await epochOf(loader);
    expect(loader.epoch).toBe(1);
    await take(loader, 2);
    expect(loader.epoch).toBe(1);
    const third = await epochOf(loader);
    told.setEpoch(2);
    expect(third).toEqual(await epochOf(told));
    expect(loader.epoch).toBe(3);
  });

  test('can be asked for again', async () => {
    const loader = loaderOf({ shuffle: true });
    const first = await epochOf(loader);
    loader.setEpoch(0);
    expect(await epochOf(loader)).toEqual(first);
  });
});

describe('state', () => {
  const settings = fc.record({
    items: fc.integer({ min: 1, max: 30 }),
    batchSize: fc.integer({ min: 1, max: 7 }),
    dropLast: fc.boolean(),
    prefetch: fc.nat({ max: 4 }),
    shuffle: fc.boolean(),
  });

  test('continues in the middle of an epoch with the same batches, through JSON', async () => {
    const cut = fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 30 }));
    await fc.assert(
      fc.asyncProperty(settings, cut, async (options, [epoch, wanted]) => {
        const whole = loaderOf(options);
        // A loader without a batch cannot be continued and throws a DataError.
        fc.pre(whole.length > 0);
        whole.setEpoch(epoch);
        const expected = await epochOf(whole);

        const first = loaderOf(options);
        first.setEpoch(epoch);
        const before = await take(first, Math.min(wanted, first.length));
        const state: unknown = JSON.parse(JSON.stringify(first.state()));

        const second = loaderOf({ ...options, prefetch: 2 });
        second.load(state);
        second.setEpoch(epoch);
        expect([...before, ...(await epochOf(second))]).toEqual(expected);
        expect(second.epoch).toBe(epoch + 1);
        expect(await epochOf(second)).toEqual(await epochOf(whole));
      }),
      { numRuns: 60 },
    );
  });

  test('continues a generator’s stream, this epoch and the next', async () => {
    const options = { batchSize: 3, shuffle: true, prefetch: 3 };
    for (const seen of [0, 1, 2, 4]) {
      const first = loaderOf({ ...options, generator: new Generator(8) });
      await epochOf(first);
      const before = await take(first, seen);
      const state = first.state();
      const second = loaderOf({ ...options, generator: new Generator(1) });
      second.load(state);
      const after = await epochOf(second);

      const whole = loaderOf({ ...options, generator: new Generator(8) });
      await epochOf(whole);
      expect([...before, ...after]).toEqual(await epochOf(whole));
      expect(await epochOf(second)).toEqual(await epochOf(whole));
    }
  });

  test('counts the batches that were handed out, not those prefetched', async () => {
    const loader = loaderOf({ batchSize: 2, prefetch: 3 });
    const seen: number[] = [];
    for await (const _batch of loader) seen.push(loader.state().batchesSeen);
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    expect(loader.state()).toMatchObject({ epoch: 1, batchesSeen: 0 });
  });

  test('is the same on all ranks', async () => {
    const states = [0, 1, 2].map((rank) => {
      const sampler = new DistributedSampler({ dataset: 10, numReplicas: 3, rank });
      return loaderOf({ batchSize: 2, sampler }).state();
    });
    expect(states[1]).toEqual(states[0]);
    expect(states[2]).toEqual(states[0]);
  });

  test('is for one epoch: another one starts at its beginning', async () => {
    const loader = loaderOf({ batchSize: 4 });
    await take(loader, 2);
    const other = loaderOf({ batchSize: 4 });
    other.load(loader.state());
    other.setEpoch(5);
    expect(await epochOf(other)).toHaveLength(3);
  });

  test.each<[string, Options, string]>([
    [
      'another batch size',
      { batchSize: 2 },
      'saved with batchSize 3; this data loader has batchSize 2',
    ],
    [
      'another length',
      { batchSize: 3, items: 11 },
      'sampler.length 10; this data loader has sampler.length 11',
    ],
    [
      'a dropped batch',
      { batchSize: 3, dropLast: true },
      'dropLast false; this data loader has dropLast true',
    ],
    ['shuffling', { batchSize: 3, shuffle: true }, 'sampler.kind sequential'],
  ])('is refused by a loader with %s', (_name, options, message) => {
    const state = loaderOf({ batchSize: 3 }).state();
    expect(() => loaderOf(options).load(state)).toThrow(ConfigError);
    expect(() => loaderOf(options).load(state)).toThrow(message);
  });

  /** Creates the loaders of all ranks of a world. Together, they take `batch` items per step. */
  function worldOf(ranks: number, batch: number, options: WorldOptions): DataLoader<Item>[] {
    const { items, shuffle, dropLast, dropItems } = options;
    return Array.from({ length: ranks }, (_, rank) => {
      const sampler = new DistributedSampler({
        dataset: items,
        numReplicas: ranks,
        rank,
        shuffle,
        dropLast: dropItems,
      });
      return loaderOf({ items, batchSize: batch / ranks, dropLast, sampler });
    });
  }

  /** Returns the items that all ranks got in each step. */
  async function stepsOf(
    world: readonly DataLoader<Item>[],
    count: number = Infinity,
  ): Promise<number[][]> {
    const epochs = await Promise.all(
      world.map((loader) => (count === Infinity ? epochOf(loader) : take(loader, count))),
    );
    return (epochs[0] ?? []).map((_, step) =>
      epochs.flatMap((batches) => batches[step] ?? []).sort((a, b) => a - b),
    );
  }

  test('continues on another number of ranks whose batches together are as large, item for item', async () => {
    const world = fc.record({
      items: fc.integer({ min: 1, max: 60 }),
      shuffle: fc.boolean(),
      dropLast: fc.boolean(),
      dropItems: fc.boolean(),
    });
    const divisor = fc.constantFrom(1, 2, 3, 4, 6, 12);
    const property = fc.asyncProperty(
      world,
      divisor,
      divisor,
      fc.nat({ max: 6 }),
      async (options, ranksBefore, ranksAfter, wanted) => {
        const saving = worldOf(ranksBefore, 12, options);
        const loading = worldOf(ranksAfter, 12, options);
        fc.pre([...saving, ...loading].every(({ length }) => length > 0));
        const seen = Math.min(wanted, saving[0]?.length ?? 0);
        const before = await stepsOf(saving, seen);
        const state: unknown = JSON.parse(JSON.stringify(saving[0]?.state()));
        for (const loader of loading) loader.load(state);
        const after = await stepsOf(loading);

        const whole = await stepsOf(worldOf(ranksAfter, 12, options));
        // Only a last, small batch may contain other items, which pad it to a multiple of the number of ranks.
        const isWhole = (step: number): boolean => (step + 1) * 12 <= options.items;
        const kept = [...before, ...after];
        expect(after).toEqual(whole.slice(seen));
        expect(kept.filter((_, step) => isWhole(step))).toEqual(
          whole.filter((_, step) => isWhole(step)),
        );
        if (!options.dropLast && !options.dropItems) {
          expect([...new Set(kept.flat())].sort((a, b) => a - b)).toEqual(
            Array.from({ length: options.items }, (_, i) => i),
          );
        }
        // The next epoch is complete again.
        expect(await stepsOf(loading)).toHaveLength(loading[0]?.length ?? 0);
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });

  test.each([
    [{ ranks: 3, batch: 6 }, 'Use batchSize 3,'],
    [{ ranks: 2, batch: 6 }, 'Use a number of ranks that divides 9'],
  ])('is refused by a world of %j, which takes other steps', ({ ranks, batch }, todo) => {
    const options = { items: 60, shuffle: true, dropLast: false, dropItems: false };
    const state = worldOf(1, 9, options)[0]?.state();
    const load = (): void => worldOf(ranks, batch, options)[0]?.load(state);
    expect(load).toThrow(ConfigError);
    expect(load).toThrow(
      `saved with batchSize 9; this data loader has batchSize ${batch / ranks} on each of ${ranks} ranks. ${todo}`,
    );
  });

  test('is JSON for the compiler, too', () => {
    type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
    const json: Json = { loader: loaderOf({}).state(), random: randomState() };
    expect(JSON.parse(JSON.stringify(json))).toEqual(json);
  });

  test.each<[string, unknown]>([
    ['null', null],
    ['another version', { ...loaderOf({}).state(), version: 2 }],
    ['a negative count', { ...loaderOf({}).state(), batchesSeen: -1 }],
    ['a count past the epoch', { ...loaderOf({}).state(), batchesSeen: 11 }],
    [
      'a generator that is not used',
      { ...loaderOf({}).state(), generator: new Generator().getState() },
    ],
    ['a field too many', { ...loaderOf({}).state(), extra: true }],
  ])('that is %s is refused', (_name, state) => {
    expect(() => loaderOf({}).load(state)).toThrow(ConfigError);
  });

  test('of a sampler without settings is checked by its length', async () => {
    const backwards = (length: number): DataLoader<Item> =>
      loaderOf({
        sampler: {
          length,
          setEpoch: () => {},
          *[Symbol.iterator]() {
            for (let i = length - 1; i >= 0; i--) yield i;
          },
        },
      });
    const loader = backwards(10);
    await take(loader, 7);
    const other = backwards(10);
    other.load(loader.state());
    expect(await epochOf(other)).toEqual([[2], [1], [0]]);
    expect(() => backwards(9).load(loader.state())).toThrow(ConfigError);
  });
});

describe('reading', () => {
  function reading(prefetch: number): { loader: DataLoader<Item>; read: number[] } {
    const read: number[] = [];
    const dataset: Dataset<Item> = {
      length: 8,
      get: (index) => {
        read.push(index);
        if (index === 6) throw new RangeError('item 6 is broken');
        return { item: ndArray(Int32Array.of(index), []) };
      },
    };
    return { loader: new DataLoader({ dataset, batchSize: 2, prefetch }), read };
  }

  test('is as far ahead as it was asked to be', async () => {
    const { loader, read } = reading(1);
    await take(loader, 1);
    expect(read).toEqual([0, 1, 2, 3]);
  });

  test('fails when the broken batch’s turn comes, not before', async () => {
    const { loader } = reading(4);
    const seen: number[][] = [];
    const epoch = async (): Promise<void> => {
      for await (const batch of loader) seen.push([...batch.item.data]);
    };
    await expect(epoch()).rejects.toThrow(new RangeError('item 6 is broken'));
    expect(seen).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
    ]);
    expect(loader.state()).toMatchObject({ epoch: 0, batchesSeen: 3 });
  });

  test('uses a collate function', async () => {
    const loader = loaderOf({ batchSize: 4, collate: (samples) => samples.at(-1) ?? fail() });
    const last: (number | undefined)[] = [];
    for await (const batch of loader) last.push(batch.item.data[0]);
    expect(last).toEqual([3, 7, 9]);
  });
});

function fail(): never {
  throw new Error('no samples');
}

describe('an epoch without a batch', () => {
  test.each<[string, Options, string]>([
    [
      'for its ranks says so, as a loop around it would not end',
      {
        items: 3,
        batchSize: 4,
        dropLast: true,
        sampler: new DistributedSampler({ dataset: 3, numReplicas: 2, rank: 0 }),
      },
      'an epoch in batches of 4 on each of 2 ranks, with dropLast true: 3 items, which make no batch. Use a smaller batchSize, fewer ranks, or dropLast: false',
    ],
    [
      'for one rank says so',
      { items: 3, batchSize: 4, dropLast: true },
      'an epoch in batches of 4, with dropLast true: 3 items, which make no batch',
    ],
    [
      'as its sampler leaves all out says so',
      {
        items: 1,
        sampler: new DistributedSampler({ dataset: 1, numReplicas: 2, rank: 0, dropLast: true }),
      },
      '1 items, which make no batch. Use a smaller batchSize, fewer ranks, or dropLast: false, also of the sampler',
    ],
    ['as nothing is in it says so', { items: 0 }, '0 items, which make no batch. Use a dataset'],
  ])('%s', async (_, options, says) => {
    const loader = loaderOf(options);
    expect(loader).toHaveLength(0);
    await expect(epochOf(loader)).rejects.toThrow(DataError);
    await expect(epochOf(loader)).rejects.toThrow(says);
  });

  const unrepeated = (items: number, rank: number): DataLoader<Item> => {
    const share = { dataset: items, numReplicas: 3, rank, shuffle: false, repeats: false };
    return loaderOf({ items, sampler: new DistributedSampler(share) });
  };

  test('is one of a rank for which the others leave no item, but not of an empty dataset', async () => {
    const ranks = [0, 1, 2].map((rank) => unrepeated(2, rank));
    expect(await Promise.all(ranks.map(epochOf))).toEqual([[[0]], [[1]], []]);
    expect(ranks.map(({ epoch }) => epoch)).toEqual([1, 1, 1]);
    await expect(epochOf(unrepeated(0, 0))).rejects.toThrow('0 items, which make no batch');
  });

  test('is what a rank continues with that has fewer batches than the one that saved', async () => {
    const [first, last] = [unrepeated(4, 0), unrepeated(4, 2)];
    await take(first, 2);
    last.load(first.state());
    expect(await epochOf(last)).toEqual([]);
    expect(await epochOf(last)).toEqual([[2]]);
  });

  test('of an uneven sampler is not made by dropLast, which would leave items out', () => {
    const sampler = new DistributedSampler({ dataset: 4, numReplicas: 3, rank: 0, repeats: false });
    expect(() => loaderOf({ items: 4, sampler, dropLast: true })).toThrow(
      'dropLast together with a sampler that leaves no item out on any rank',
    );
  });

  test('is not one of which all batches have been handed out', async () => {
    const first = loaderOf({ batchSize: 5 });
    await take(first, 2);
    const second = loaderOf({ batchSize: 5 });
    second.load(first.state());
    expect(await epochOf(second)).toEqual([]);
  });
});

test.each<[string, unknown, string]>([
  ['an array of samples', [{ item: ndArray(Int32Array.of(1)) }], 'an array of 1'],
  ['no get()', { length: 3 }, 'an object'],
  ['a tree of arrays', { item: ndArray(Int32Array.of(1)) }, 'an object'],
])('%s is no dataset', (_, dataset, found) => {
  const make = () => new DataLoader({ dataset: dataset as never });
  expect(make).toThrow(ConfigError);
  expect(make).toThrow(
    `DataLoader with dataset: ${found}: a value that is not a dataset: { length, get(index) }, an ArrayDataset, or`,
  );
});

describe('options that contradict each other are refused', () => {
  const sampler = new DistributedSampler({ dataset: 10, numReplicas: 2, rank: 0 });
  test.each<[string, Options]>([
    ['sampler and shuffle', { sampler, shuffle: true }],
    ['sampler and seed', { sampler, seed: 1 }],
    ['seed without shuffle', { seed: 1 }],
    ['generator without shuffle', { generator: new Generator() }],
    ['seed and generator', { shuffle: true, seed: 1, generator: new Generator() }],
    ['workers for a dataset of this thread', { workers: 2 }],
    ['no batch', { batchSize: 0 }],
    ['negative prefetch', { prefetch: -1 }],
  ])('%s', (_name, options) => {
    expect(() => loaderOf(options)).toThrow(ConfigError);
  });
});

describe('a stream', () => {
  const itemOf = (value: number): Item => ({ item: ndArray(Int32Array.of(value), []) });

  /** A stream of the numbers below `length`, which can begin anywhere in an epoch. */
  class Numbers {
    readonly #length: number;
    #epoch = 0;
    closed = 0;

    constructor(length: number) {
      this.#length = length;
    }

    setEpoch(epoch: number): void {
      this.#epoch = epoch;
    }

    async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
      try {
        for (let i = 0; i < this.#length; i++) yield itemOf(i + 100 * this.#epoch);
      } finally {
        this.closed++;
      }
    }
  }

  const loaderOver = (
    dataset: DataLoaderOptions<Item>['dataset'],
    options: Options = {},
  ): DataLoader<Item> => new DataLoader({ dataset, batchSize: 2, ...options });

  test.each([0, 3])(
    'comes in batches of its order, each epoch anew (prefetch %i)',
    async (ahead) => {
      const loader = loaderOver(new Numbers(5), { prefetch: ahead });
      expect(await epochOf(loader)).toEqual([[0, 1], [2, 3], [4]]);
      expect(await epochOf(loader)).toEqual([[100, 101], [102, 103], [104]]);
    },
  );

  test('may be iterated over at once, and leaves out a small batch', async () => {
    const list = {
      *[Symbol.iterator]() {
        for (const value of [7, 8, 9]) yield itemOf(value);
      },
    };
    expect(await epochOf(loaderOver(list, { dropLast: true }))).toEqual([[7, 8]]);
  });

  test('is gone on with in the middle of an epoch, through JSON', async () => {
    const first = loaderOver(new Numbers(7));
    await epochOf(first);
    await take(first, 2);
    const second = loaderOver(new Numbers(7));
    second.load(JSON.parse(JSON.stringify(first.state())));
    expect(await epochOf(second)).toEqual([[104, 105], [106]]);
    expect(await epochOf(second)).toHaveLength(4);
  });

  test('is closed where an epoch is left', async () => {
    const dataset = new Numbers(9);
    await take(loaderOver(dataset), 1);
    expect(dataset.closed).toBe(1);
  });

  test('that can be read once is told in its second epoch, which would be empty', async () => {
    const once = (function* () {
      for (const value of [1, 2]) yield itemOf(value);
    })();
    const loader = loaderOver(once);
    expect(await epochOf(loader)).toEqual([[1, 2]]);
    await expect(epochOf(loader)).rejects.toThrow('whose every iteration starts anew');
  });

  test('has no length, and takes no order', () => {
    expect(() => loaderOver(new Numbers(3)).length).toThrow('a stream, whose end nobody knows');
    expect(() => loaderOver(new Numbers(3), { shuffle: true })).toThrow(
      'a stream together with a sampler, shuffle or workers',
    );
  });

  test('that fails has its batch fail', async () => {
    const broken = {
      *[Symbol.iterator]() {
        yield itemOf(1);
        throw new DataError({ asked: 'an item', found: 'none', todo: 'Look' });
      },
    };
    await expect(epochOf(loaderOver(broken))).rejects.toThrow(DataError);
  });
});
