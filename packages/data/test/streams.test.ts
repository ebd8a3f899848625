import { ConfigError, data, DataError } from '@shardwise/core';
import {
  concatRows,
  memoryBytes,
  packDocuments,
  type RankStreamState,
  readJsonLines,
  type Rows,
  Stream,
  type TokenRows,
} from '@shardwise/data';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StreamPlace } from '../src/streams/read-share.ts';

const range = (start: number, end: number): number[] =>
  Array.from({ length: end - start }, (_, i) => start + i);

/** Rows that count how often each of them is read. */
function numbered(start: number, end: number, reads: number[] = []): Rows<number> {
  return {
    length: end - start,
    get: async (index) => {
      reads.push(start + index);
      return start + index;
    },
    nameOf: (index) => `row ${start + index}`,
  };
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** Takes one item on each rank in turns, until each has had `turns` or all have ended. Returns what they had, in turns. */
async function inTurns<T>(ranks: readonly AsyncIterator<T>[], turns = Infinity): Promise<T[]> {
  const items: T[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const results = await Promise.all(ranks.map((rank) => rank.next()));
    const found = results.flatMap((result) => (result.done === true ? [] : [result.value]));
    items.push(...found);
    if (found.length < ranks.length) break;
  }
  return items;
}

/** How a stream is made, and which items it has. */
interface Recipe {
  readonly make: () => Stream<number>;
  readonly items: readonly number[];
}

const recipes: fc.Arbitrary<Recipe> = fc
  .record({
    first: fc.integer({ min: 1, max: 25 }),
    second: fc.integer({ min: 0, max: 25 }),
    source: fc.constantFrom('rows', 'shuffled rows', 'iterable'),
    steps: fc.array(fc.constantFrom('map', 'filter', 'shuffle'), { maxLength: 3 }),
    bufferSize: fc.integer({ min: 1, max: 9 }),
    weight: fc.double({ min: 0.1, max: 9, noNaN: true }),
  })
  .map(({ first, second, source, steps, bufferSize, weight }): Recipe => {
    const sourceOf = (start: number, end: number): Stream<number> =>
      source === 'iterable'
        ? Stream.of(() => range(start, end))
        : Stream.ofRows(numbered(start, end), { shuffle: source === 'shuffled rows', seed: 5 });
    const filters = steps.includes('filter');
    const items = [...range(0, first), ...range(100, 100 + second)];
    return {
      items: items.filter((item) => !filters || item % 3 !== 0),
      make: () => {
        const parts = [{ stream: sourceOf(0, first), weight: 1 }];
        if (second > 0) parts.push({ stream: sourceOf(100, 100 + second), weight });
        return steps.reduce((stream, step) => {
          if (step === 'map') return stream.map((item) => item);
          if (step === 'filter') return stream.filter(async (item) => item % 3 !== 0);
          return stream.shuffle({ bufferSize, seed: 2 });
        }, Stream.mix(parts));
      },
    };
  });

const ascending = (items: readonly number[]): number[] => items.toSorted((a, b) => a - b);

describe('a stream that ranks share out', () => {
  it('gives each item once, in an order that does not depend on the number of ranks, also after a resume on another number', async () => {
    const ranks = fc.integer({ min: 1, max: 4 });
    const property = fc.asyncProperty(
      recipes,
      fc.record({
        before: ranks,
        after: ranks,
        turns: fc.nat({ max: 12 }),
        epoch: fc.nat({ max: 3 }),
        prefetch: fc.nat({ max: 3 }),
      }),
      async ({ make, items }, { before, after, turns, epoch, prefetch }) => {
        const whole = make().split({ rank: 0, numReplicas: 1 });
        whole.setEpoch(epoch);
        // A rank without items refuses its epoch.
        if (items.length < Math.max(before, after)) return;
        const order = await collect(whole);
        expect(ascending(order)).toEqual(ascending(items));

        const first = range(0, before).map((rank) =>
          make().split({ rank, numReplicas: before, prefetch }),
        );
        for (const stream of first) stream.setEpoch(epoch);
        const started = await inTurns(
          first.map((stream) => stream[Symbol.asyncIterator]()),
          turns,
        );
        expect(started).toEqual(order.slice(0, started.length));
        const states = first.map((stream) => JSON.stringify(stream.state()));

        const second = range(0, after).map((rank) =>
          make().split({ rank, numReplicas: after, prefetch }),
        );
        const saved: RankStreamState = JSON.parse(states[0] ?? '');
        expect(new Set(states).size).toBe(1);
        if (saved.epoch > epoch || order.length - started.length < 1) return;
        for (const stream of second) stream.load(saved);
        const rest = await inTurns(second.map((stream) => stream[Symbol.asyncIterator]()));
        expect([...started, ...rest]).toEqual(order);
        // The next epoch has all items again.
        const next = await inTurns(second.map((stream) => stream[Symbol.asyncIterator]()));
        expect(ascending(next)).toEqual(ascending(items));
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });

  it('gives each item once by random programs of workers, batches, dropLast, mixtures in mixtures and resumes', async () => {
    const program = fc.record({
      sizes: fc.array(fc.nat({ max: 12 }), { minLength: 2, maxLength: 4 }),
      until: fc.constantFrom('all' as const, 'first' as const),
      bufferSize: fc.integer({ min: 1, max: 7 }),
      batch: fc.integer({ min: 1, max: 3 }),
      dropLast: fc.boolean(),
      /** For each run until it is stopped: its ranks and workers, and how many turns it has. */
      runs: fc.array(
        fc.record({
          ranks: fc.integer({ min: 1, max: 4 }),
          workers: fc.integer({ min: 1, max: 3 }),
          turns: fc.integer({ min: 1, max: 5 }),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      epoch: fc.nat({ max: 2 }),
    });
    const property = fc.asyncProperty(program, async (given) => {
      const { sizes, until, bufferSize, batch, dropLast, runs, epoch } = given;
      const make = (): Stream<readonly number[]> => {
        const sources = sizes.map((size, i) => ({
          stream: Stream.ofRows(numbered(100 * i, 100 * i + size), { shuffle: i % 2 === 1 }),
          weight: i + 1,
        }));
        const inner = Stream.mix(sources.slice(1), { until: 'all', seed: 3 });
        const parts = [...sources.slice(0, 1), { stream: inner, weight: 2 }];
        return Stream.mix(parts, { until }).shuffle({ bufferSize }).batch(batch);
      };
      const items = sizes.flatMap((size, i) => range(100 * i, 100 * i + size));
      const read = (
        from: StreamPlace,
        share: { rank: number; numReplicas: number; worker: number; workers: number },
      ): ReturnType<Stream<readonly number[]>['read']> =>
        make().read(epoch, from, { ...share, dropLast, prefetch: 0 });
      const alone = { rank: 0, numReplicas: 1, worker: 0, workers: 1 };
      const beginning: StreamPlace = { place: null, skip: 0 };
      const order: (readonly number[])[] = [];
      for await (const { value } of read(beginning, alone)) order.push(value);
      if (until === 'all') expect(ascending(order.flat())).toEqual(ascending(items));
      else expect(new Set(order.flat()).size).toBe(order.flat().length);

      const seen: (readonly number[])[] = [];
      let from: StreamPlace = beginning;
      for (const { ranks: numReplicas, workers, turns } of [
        ...runs,
        { ranks: 2, workers: 2, turns: Infinity },
      ]) {
        const shares = range(0, workers).map((worker) =>
          range(0, numReplicas).map((rank) => read(from, { rank, numReplicas, worker, workers })),
        );
        // A turn is an item on each rank; the workers of a rank take turns. It stops after whole rounds of workers.
        let place: StreamPlace = from;
        let isOver = false;
        for (let turn = 0; !isOver && turn < turns * workers; turn++) {
          const ranks = shares[turn % workers] ?? [];
          const results = await Promise.all(ranks.map((each) => each.next()));
          const found = results.flatMap((each) => (each.done === true ? [] : [each.value]));
          seen.push(...found.map(({ value }) => value));
          isOver = found.length < numReplicas;
          const last = found.at(-1);
          if (last !== undefined && turn % workers === workers - 1) {
            place = { place: last.place, skip: 0 };
          }
          if (found.some(({ isLast }) => isLast)) isOver = true;
        }
        await Promise.all(shares.flat().map((each) => each.return(undefined)));
        if (isOver) break;
        from = place;
      }
      // What is dropped is less than a turn of the ranks of the run that ended.
      expect(seen).toEqual(order.slice(0, seen.length));
      expect(order.length - seen.length).toBeLessThan(dropLast ? 4 : 1);
    });
    await fc.assert(property, { numRuns: 150, seed: 38 });
  });

  it('reads only the rows of its rank, and makes only its items', async () => {
    const reads: number[] = [];
    const made: number[] = [];
    const stream = Stream.ofRows(numbered(0, 10, reads))
      .shuffle({ bufferSize: 4 })
      .map((item) => {
        made.push(item);
        return item;
      })
      .split({ rank: 1, numReplicas: 3 });
    const items = await collect(stream);
    expect(items).toHaveLength(3);
    expect([made, reads]).toEqual([items, items]);
  });

  it('leaves out the last items if dropLast says so', async () => {
    const shares = [0, 1, 2].map((rank) => {
      const stream = Stream.ofRows(numbered(0, 8));
      return collect(stream.split({ rank, numReplicas: 3, dropLast: true }));
    });
    expect(await Promise.all(shares)).toEqual([
      [0, 3],
      [1, 4],
      [2, 5],
    ]);
  });

  it('has another order in each epoch, and the same for the same seed', async () => {
    const epochs = async (seed: number): Promise<number[][]> => {
      const stream = Stream.ofRows(numbered(0, 50), { shuffle: true, seed }).split({
        rank: 0,
        numReplicas: 1,
      });
      return [await collect(stream), await collect(stream)];
    };
    const [first, second] = await epochs(1);
    expect(first).not.toEqual(second);
    expect(await epochs(1)).toEqual([first, second]);
    expect((await epochs(2))[0]).not.toEqual(first);
  });

  it('begins the next epoch if one is left before its end', async () => {
    const stream = Stream.ofRows(numbered(0, 4)).split({ rank: 0, numReplicas: 1 });
    for await (const item of stream) if (item === 1) break;
    expect([stream.epoch, await collect(stream), stream.epoch]).toEqual([0, [0, 1, 2, 3], 2]);
  });

  it('gives a data loader its samples', async () => {
    const stream = Stream.ofRows(numbered(0, 6))
      .map((item) => data.ndArray(Int32Array.of(item)))
      .split({ rank: 1, numReplicas: 2 });
    const loader = new data.DataLoader({ dataset: stream, batchSize: 2 });
    const batches = await collect(loader);
    expect(batches.map((batch) => Array.from(batch.data, Number))).toEqual([[1, 3], [5]]);
  });

  it('refuses a rank without items, a rank that is none, and states of other streams', async () => {
    const one = Stream.ofRows(numbered(0, 1));
    await expect(collect(one.split({ rank: 1, numReplicas: 2 }))).rejects.toThrow(DataError);
    await expect(collect(one.split({ rank: 0, numReplicas: 2, dropLast: true }))).rejects.toThrow(
      /fewer items than ranks/,
    );
    expect(() => one.split({ rank: 2, numReplicas: 2 })).toThrow(ConfigError);
    const stream = one.split({ rank: 0, numReplicas: 1 });
    expect(() => stream.load({ version: 2 })).toThrow(ConfigError);
    stream.load({ version: 1, epoch: 0, skip: 0, place: { position: 0, length: 7 } });
    await expect(collect(stream)).rejects.toThrow(/7 rows/);
    stream.load({ version: 1, epoch: 0, skip: 0, place: { draws: 1, parts: [] } });
    await expect(collect(stream)).rejects.toThrow(/not of this stream/);
  });
});

describe('parts of a stream', () => {
  it('a buffer that shuffles moves items by less than its size', async () => {
    const stream = Stream.ofRows(numbered(0, 100)).shuffle({ bufferSize: 10 });
    const items = await collect(stream.split({ rank: 0, numReplicas: 1 }));
    expect(items).not.toEqual(range(0, 100));
    expect(items.filter((item, place) => Math.abs(item - place) >= 10)).toEqual([]);
  });

  it('a mixture has the shares of the weights until the first stream ends', async () => {
    const parts = [
      { stream: Stream.ofRows(numbered(0, 3000)), weight: 3 },
      { stream: Stream.ofRows(numbered(3000, 9000)), weight: 1 },
    ];
    const mixed = Stream.mix(parts, { until: 'first' }).split({ rank: 0, numReplicas: 1 });
    const items = await collect(mixed);
    const share = items.filter((item) => item < 3000).length / items.length;
    // Five standard deviations of some 4,000 draws.
    expect(Math.abs(share - 0.75)).toBeLessThan(5 * Math.sqrt((0.75 * 0.25) / 4000));
    expect(() => Stream.mix([])).toThrow(ConfigError);
    expect(() => Stream.mix([{ stream: Stream.ofRows(numbered(0, 1)), weight: 0 }])).toThrow(
      ConfigError,
    );
  });

  it('a batch has neighbouring items, and goes to one rank as a whole', async () => {
    const batches = Stream.ofRows(numbered(0, 7)).batch(2);
    expect(await collect(batches.split({ rank: 1, numReplicas: 2 }))).toEqual([[2, 3], [6]]);
    const whole = Stream.ofRows(numbered(0, 7)).batch(2, { dropLast: true });
    expect(await collect(whole.split({ rank: 0, numReplicas: 2 }))).toEqual([
      [0, 1],
      [4, 5],
    ]);
  });

  it('packed documents are those of packDocuments, for any number of ranks and after any resume', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 4, maxLength: 20 }),
      fc.nat({ max: 8 }),
      async (lengths, turns) => {
        const documents = lengths.map((length, d): TokenRows => {
          const ids = Array.from({ length }, (_, i) => 100 * (d + 1) + i);
          return { inputIds: data.ndArray(Int32Array.from(ids)) };
        });
        const options = { contextLength: 4, padTokenId: 0 };
        const rows = [...packDocuments(documents, options)];
        if (rows.length < 2) return;
        const packed = Stream.pack(
          Stream.of(() => documents),
          options,
        );
        const before = [0, 1].map((rank) => packed.split({ rank, numReplicas: 2 }));
        const started = await inTurns(
          before.map((stream) => stream[Symbol.asyncIterator]()),
          turns,
        );
        expect(started).toEqual(rows.slice(0, started.length));
        if (before[0]?.epoch === 1 || started.length === rows.length) return;
        const alone = packed.split({ rank: 0, numReplicas: 1 });
        alone.load(JSON.parse(JSON.stringify(before[0]?.state())));
        expect([...started, ...(await collect(alone))]).toEqual(rows);
      },
    );
    await fc.assert(property, { numRuns: 100 });
  });

  it('an error of a row comes when the row does, and names the file and the line', async () => {
    const lines = (content: string, name: string): Promise<Rows<unknown>> =>
      readJsonLines(memoryBytes(new TextEncoder().encode(content), name));
    const rows = concatRows([await lines('1\n2\n', 'a.jsonl'), await lines('3\n{\n', 'b.jsonl')]);
    const seen: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const row of Stream.ofRows(rows).split({ rank: 0, numReplicas: 1, prefetch: 4 }))
        seen.push(row);
    };
    await expect(read()).rejects.toThrow(/b\.jsonl, line 2: no JSON/);
    expect(seen).toEqual([1, 2, 3]);
  });

  it('an iterable is closed when its reader leaves', async () => {
    let isClosed = false;
    const stream = Stream.of(async function* () {
      try {
        yield* [1, 2, 3];
      } finally {
        isClosed = true;
      }
    });
    for await (const item of stream.split({ rank: 0, numReplicas: 1 })) if (item === 2) break;
    expect(isClosed).toBe(true);
  });
});
