import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ArrayDataset } from '../src/data/array-dataset.ts';
import { collate } from '../src/data/collate.ts';
import { ConcatDataset } from '../src/data/concat-dataset.ts';
import { DataLoader } from '../src/data/data-loader.ts';
import type { Dataset } from '../src/data/dataset.ts';
import { type ArrayTree, type NDArray, ndArray } from '../src/tensor/nd-array.ts';
import { readTextFiles } from '../src/data/read-text-files.ts';
import { randomSplit, Subset } from '../src/data/subset.ts';
import { splitText, TextDataset } from '../src/data/text-dataset.ts';
import { Generator } from '../src/random/generator.ts';
import { ConfigError, DataError, ShapeError } from '../src/spec/errors.ts';
import { tensor } from '../src/tensor/create.ts';
import { golden, indicesText } from './golden/random.ts';

function numbers(length: number): ArrayDataset<{ x: NDArray<'i32'> }> {
  return new ArrayDataset({ x: ndArray(Int32Array.from({ length }, (_, i) => i)) });
}

describe('ndArray', () => {
  test('takes dtype and shape from the data', () => {
    expect(ndArray(Float32Array.of(1, 2))).toEqual({
      data: Float32Array.of(1, 2),
      shape: [2],
      dtype: 'f32',
    });
    expect(ndArray(BigInt64Array.of(1n), []).dtype).toBe('i64');
  });

  test('refuses a shape of another size', () => {
    expect(() => ndArray(new Int32Array(5), [2, 3])).toThrow(
      'an array of shape [2, 3]: 5 elements instead of 6',
    );
  });
});

describe('a sample that is not made of arrays', () => {
  const array = ndArray(Float32Array.of(1));
  test.each<[string, unknown, string]>([
    ['a number', 5, '5.'],
    ['nothing', undefined, 'undefined.'],
    ['null', null, 'null.'],
    ['a text', 'cat', "'cat'."],
    ['an array of numbers', [1, 2, 3], '[1, 2, 3].'],
    ['an array of rows of numbers', [[1], [2]], '[1] at 0.'],
    ['a typed array', Float32Array.of(1, 2), 'a Float32Array, without a shape.'],
    ['a tensor', tensor([1]), 'a tensor, which belongs to one rank and one thread.'],
    ['a record with a label that is a number', { x: array, y: 3 }, '3 at y.'],
    ['a record with a label that is a text', { x: array, y: 'cat' }, "'cat' at y."],
    ['a record of tensors', { x: tensor([1]) }, 'a tensor at x,'],
    ['an empty record', {}, 'an object without arrays.'],
    ['an empty list', [], 'an empty array.'],
    ['a Map', new Map([['x', array]]), 'a Map.'],
    [
      'an array without dtype',
      { data: Float32Array.of(1), shape: [1] },
      'a Float32Array at data, without a shape.',
    ],
    [
      'an array of no dtype',
      { data: Float32Array.of(1), shape: [1], dtype: 'float32' },
      "an array of the dtype 'float32'.",
    ],
    ['an array in a list', { data: [1], shape: [1], dtype: 'f32' }, 'an array of f32 in [1].'],
    [
      'an array of another shape',
      { x: { data: Float32Array.of(1, 2), shape: [3], dtype: 'f32' } },
      'an array of shape [3] (3 elements) with 2 elements at x.',
    ],
  ])('is refused, by its index and what it is: %s', async (_, sample, found) => {
    const dataset: Dataset = { length: 9, get: (index) => (index === 5 ? sample : array) as never };
    const loader = new DataLoader({ dataset, batchSize: 4 });
    const read = async (): Promise<void> => {
      for await (const batch of loader) expect(batch).toBeDefined();
    };
    await expect(read()).rejects.toThrow(DataError);
    loader.setEpoch(1);
    const message = `to put item 5 of the dataset into a batch: ${found}`;
    await expect(read()).rejects.toThrow(message);
    await expect(read()).rejects.toThrow('Return arrays from get(), alone or by name: ');
    expect(() => collate([array, sample as never])).toThrow(
      `to put sample 1 into a batch: ${found}`,
    );
  });

  test('is refused in a promise, too', async () => {
    const dataset: Dataset = { length: 1, get: async () => undefined as never };
    const [first] = [new DataLoader({ dataset })[Symbol.asyncIterator]()];
    await expect(first?.next()).rejects.toThrow('item 0 of the dataset into a batch: undefined.');
  });

  test('is what a collate function may take, which must return a batch', async () => {
    const dataset: Dataset = { length: 4, get: (index) => index as never };
    const batches = async (
      collate: (samples: readonly ArrayTree[], indices: readonly number[]) => ArrayTree,
    ) => {
      const read: ArrayTree[] = [];
      for await (const batch of new DataLoader({ dataset, batchSize: 2, collate }))
        read.push(batch);
      return read;
    };
    const stacked = await batches((samples, indices) => [
      ndArray(Int32Array.of(samples.length, ...indices)),
    ]);
    expect(stacked).toEqual([[ndArray(Int32Array.of(2, 0, 1))], [ndArray(Int32Array.of(2, 2, 3))]]);
    await expect(batches(() => undefined as never)).rejects.toThrow(
      'batch 0 of a data loader: a collate function that returned undefined',
    );
  });

  test('is no dataset of array rows either', () => {
    expect(() => new ArrayDataset({ x: tensor([1]) } as never)).toThrow(
      'a dataset of array rows: a tensor at x,',
    );
    expect(() => new ArrayDataset([1, 2] as never)).toThrow(
      'a dataset of array rows: [1, 2]. Give arrays',
    );
  });
});

describe('collate', () => {
  test('stacks every array of a tree, with a first dim of the batch', () => {
    const sample = (i: number) => ({
      x: ndArray(Float32Array.of(i, i + 1)),
      more: [ndArray(Int32Array.of(i), []), ndArray(Uint8Array.of(i, i, i, i), [2, 2])],
    });
    expect(collate([sample(1), sample(5), sample(9)])).toEqual({
      x: ndArray(Float32Array.of(1, 2, 5, 6, 9, 10), [3, 2]),
      more: [
        ndArray(Int32Array.of(1, 5, 9), [3]),
        ndArray(Uint8Array.of(1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9), [3, 2, 2]),
      ],
    });
  });

  test('undoes the rows of an ArrayDataset, also from an unaligned view', () => {
    const sizes = fc.tuple(fc.integer({ min: 1, max: 9 }), fc.nat({ max: 4 }), fc.nat({ max: 3 }));
    fc.assert(
      fc.property(sizes, ([rows, columns, offset]) => {
        const whole = Float64Array.from({ length: offset + rows * columns }, (_, i) => i / 3);
        const table = ndArray(whole.subarray(offset), [rows, columns]);
        const dataset = new ArrayDataset([table]);
        const samples = Array.from({ length: rows }, (_, i) => dataset.get(i));
        expect(collate(samples)).toEqual([table]);
      }),
    );
  });

  test.each<[string, ArrayTree[], typeof ShapeError | typeof DataError, string]>([
    ['no samples', [], DataError, 'no samples'],
    [
      'other shapes',
      [{ x: ndArray(new Float32Array(2)) }, { x: ndArray(new Float32Array(3)) }],
      ShapeError,
      'the sample.x is f32 [2] in sample 0 and f32 [3] in sample 1',
    ],
    [
      'other dtypes',
      [ndArray(new Float32Array(2)), ndArray(new Int32Array(2))],
      ShapeError,
      'the sample is f32 [2] in sample 0 and i32 [2] in sample 1',
    ],
    [
      'a part too many',
      [
        { x: ndArray(new Float32Array(1)) },
        { x: ndArray(new Float32Array(1)), y: [ndArray(new Float32Array(1))] },
      ],
      DataError,
      'a record of x in sample 0 and a record of x, y in sample 1',
    ],
  ])('refuses %s, and says where', (_name, samples, error, message) => {
    expect(() => collate(samples)).toThrow(error);
    expect(() => collate(samples)).toThrow(message);
  });
});

describe('ArrayDataset', () => {
  test('refuses arrays of unequal length', () => {
    const arrays = { x: ndArray(new Float32Array(6), [3, 2]), y: ndArray(new Int32Array(2)) };
    expect(() => new ArrayDataset(arrays)).toThrow(ShapeError);
    expect(() => new ArrayDataset(arrays)).toThrow('x [3, 2], y [2]');
    expect(() => new ArrayDataset({})).toThrow('without arrays');
    expect(() => new ArrayDataset(ndArray(new Int32Array(1), []))).toThrow(ShapeError);
  });

  test.each([-1, 4, 0.5, Number.NaN])('has no item %d of 4', (index) => {
    expect(() => numbers(4).get(index)).toThrow(DataError);
  });
});

describe('randomSplit', () => {
  test.each(golden.randomSplit)('gives PyTorch’s parts: $split', ({ split, result }) => {
    const [length = '', parts = '', seed = ''] = split.split(' ');
    const subsets = randomSplit(
      new Generator(Number(seed)),
      numbers(Number(length)),
      parts.split(',').map(Number),
    );
    expect(indicesText(subsets.map((subset) => Array.from(subset.indices)))).toBe(result);
  });

  test.each([[[3, 8]], [[0.5, 0.4]], [[11, -1]], [[]]])('refuses parts %j of 10 items', (parts) => {
    expect(() => randomSplit(new Generator(), numbers(10), parts)).toThrow(ConfigError);
  });

  test('a subset gives its items', async () => {
    const subset = new Subset(numbers(10), [7, 2]);
    expect((await subset.get(1)).x.data).toEqual(Int32Array.of(2));
    expect(() => subset.get(2)).toThrow(DataError);
  });
});

describe('TextDataset', () => {
  const bytes = Uint8Array.from({ length: 10 }, (_, i) => 100 + i);

  test('y is x one byte later', () => {
    const dataset = new TextDataset(bytes, { contextLength: 3 });
    expect(dataset.length).toBe(3);
    expect(dataset.get(2)).toEqual({
      x: ndArray(Int32Array.of(106, 107, 108)),
      y: ndArray(Int32Array.of(107, 108, 109)),
    });
  });

  test('has as many windows as fit, each with the byte after it', () => {
    const size = fc.integer({ min: 1, max: 12 });
    fc.assert(
      fc.property(size, size, fc.nat({ max: 40 }), (contextLength, stride, extra) => {
        const text = new Uint8Array(contextLength + 1 + extra);
        const dataset = new TextDataset(text, { contextLength, stride });
        const end = (windows: number): number => (windows - 1) * stride + contextLength + 1;
        expect(end(dataset.length)).toBeLessThanOrEqual(text.length);
        expect(end(dataset.length + 1)).toBeGreaterThan(text.length);
        expect(dataset.get(dataset.length - 1).y.data).toHaveLength(contextLength);
      }),
    );
  });

  test('refuses a text shorter than a window', () => {
    expect(() => new TextDataset(bytes, { contextLength: 10 })).toThrow(DataError);
    expect(new TextDataset(bytes, { contextLength: 9 })).toHaveLength(1);
  });

  test.each([{ contextLength: 0 }, { contextLength: 1.5 }, { contextLength: 2, stride: 0 }])(
    'refuses %o',
    (options) => {
      expect(() => new TextDataset(bytes, options)).toThrow(ConfigError);
    },
  );

  test('the validation part is the end of the text', () => {
    const { train, validation } = splitText(bytes, 0.25);
    expect([...train, ...validation]).toEqual([...bytes]);
    expect(train).toHaveLength(7);
    expect(() => splitText(bytes, 1.5)).toThrow(ConfigError);
  });

  test('elements of more than a byte are refused, as they would be read as bytes', () => {
    const words = new Uint16Array(20);
    // @ts-expect-error: plain JavaScript can pass this.
    expect(() => new TextDataset(words, { contextLength: 2 })).toThrow('Uint8Array');
    // @ts-expect-error: plain JavaScript can pass this.
    expect(() => splitText(words, 0.5)).toThrow('Uint8Array');
  });
});

describe('readTextFiles', () => {
  let cwd = '';

  beforeAll(async () => {
    cwd = await mkdtemp(join(tmpdir(), 'shardwise-data-'));
    await mkdir(join(cwd, 'deep.txt'));
    await writeFile(join(cwd, 'b.txt'), 'second ');
    await writeFile(join(cwd, 'a.txt'), 'first ');
    await writeFile(join(cwd, 'deep.txt', 'c.txt'), 'third');
  });

  afterAll(() => rm(cwd, { recursive: true }));

  test('joins what matches in the order of the paths, and each file once', async () => {
    const bytes = await readTextFiles(['**/*.txt', 'a.*'], { cwd });
    expect(new TextDecoder().decode(bytes)).toBe('first second third');
  });

  test('names the glob and the folder where nothing matches', async () => {
    const reading = readTextFiles(['*.txt', 'missing/*.md'], { cwd });
    await expect(reading).rejects.toThrow(DataError);
    await expect(reading).rejects.toThrow(
      `text files matching 'missing/*.md': no file under ${cwd}. Correct the glob`,
    );
  });

  test('reads no more than it may', async () => {
    await expect(readTextFiles('*.txt', { cwd, maxBytes: 12 })).rejects.toThrow(
      'to read 2 text files of 13 bytes: a limit of 12 bytes',
    );
    await expect(readTextFiles('*.txt', { cwd, maxBytes: 13 })).resolves.toHaveLength(13);
  });
});

describe('ConcatDataset', () => {
  test('has the items of all datasets, one after the other', async () => {
    const all = new ConcatDataset([numbers(2), numbers(0), numbers(3)]);
    expect(all.length).toBe(5);
    const items: (number | undefined)[] = [];
    for (let i = 0; i < 5; i++) items.push((await all.get(i)).x.data[0]);
    expect(items).toEqual([0, 1, 0, 1, 2]);
  });

  test('refuses items that it has not, no datasets, and what is none', () => {
    expect(() => new ConcatDataset([numbers(2)]).get(2)).toThrow(DataError);
    expect(() => new ConcatDataset([])).toThrow('none where datasets are expected');
    expect(() => new ConcatDataset([[1, 2] as never])).toThrow(ConfigError);
  });
});
