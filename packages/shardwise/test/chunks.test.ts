import {
  boxOf,
  boxShape,
  type Chunk,
  commonRuns,
  covers,
  type DimRange,
  elementCount,
  formatChunk,
} from '@shardwise/core/extend';
import { array, assert, integer, property, tuple } from 'fast-check';
import { describe, expect, it } from 'vitest';

/** Returns the indices of a chunk's elements in the whole tensor, in the order of the chunk. */
function elementsOf(shape: readonly number[], { box, start, stop }: Chunk): number[] {
  const all = box.reduce<number[]>(
    (rows, range, dim) =>
      rows.flatMap((row) =>
        Array.from(
          { length: range.stop - range.start },
          (_, index) => row * (shape[dim] ?? 1) + range.start + index,
        ),
      ),
    [0],
  );
  return all.slice(start, stop);
}

const shapes = array(integer({ min: 1, max: 5 }), { maxLength: 4 });
const fractions = array(integer({ min: 0, max: 100 }), { minLength: 10, maxLength: 10 });

/** Makes a chunk of a tensor from numbers between 0 and 100. */
function chunkOf(shape: readonly number[], numbers: readonly number[]): Chunk {
  const between = (count: number, a = 0, b = 100): { start: number; stop: number } => {
    const [start = 0, stop = 0] = [a, b]
      .map((each) => Math.round((each / 100) * count))
      .toSorted((first, second) => first - second);
    return { start, stop };
  };
  const box = shape.map((size, dim) => between(size, numbers[2 * dim], numbers[2 * dim + 1]));
  return { box, ...between(elementCount(boxShape(box)), numbers[8], numbers[9]) };
}

describe('the runs that two chunks have in common', () => {
  it('are all elements that both have, in order, at their places in each', () => {
    assert(
      property(shapes, fractions, fractions, (shape, a, b) => {
        const [first, second] = [chunkOf(shape, a), chunkOf(shape, b)];
        const [inFirst, inSecond] = [elementsOf(shape, first), elementsOf(shape, second)];
        const places = [...commonRuns(first, second)].flatMap((run) =>
          Array.from({ length: run.count }, (_, index) => [run.first + index, run.second + index]),
        );
        const found = places.map(([at = -1]) => inFirst[at]);
        expect(found).toEqual(inFirst.filter((element) => inSecond.includes(element)));
        expect(places.map(([, at = -1]) => inSecond[at])).toEqual(found);
      }),
    );
  });

  it('are one run where both are ranges of the whole tensor', () => {
    const box = boxOf([64, 64, 64]);
    const runs = commonRuns({ box, start: 0, stop: 9000 }, { box, start: 5000, stop: 20_000 });
    expect([...runs]).toEqual([{ first: 5000, second: 0, count: 4000 }]);
  });
});

describe('whether chunks make up a tensor', () => {
  /** Splits a [rows, columns] tensor into columns for each rank, and each rank's columns into stretches. */
  function columns(rows: number, perRank: number, ranks: number, parts: number): Chunk[] {
    return Array.from({ length: ranks }, (_, rank): readonly DimRange[] => [
      { start: 0, stop: rows },
      { start: rank * perRank, stop: (rank + 1) * perRank },
    ]).flatMap((box) => {
      const total = rows * perRank;
      const each = Math.ceil(total / parts);
      return Array.from({ length: parts }, (_, part) => ({
        box,
        start: Math.min(total, part * each),
        stop: Math.min(total, (part + 1) * each),
      })).filter(({ start, stop }) => start < stop);
    });
  }
  const small = integer({ min: 1, max: 6 });

  it('is so for stretches of boxes side by side, and not without one of them', () => {
    assert(
      property(tuple(small, small, small, small), small, ([rows, perRank, ranks, parts], which) => {
        const shape = [rows, perRank * ranks];
        const all = columns(rows, perRank, ranks, parts);
        expect(covers(shape, all)).toBe(true);
        expect(covers(shape, all.toSpliced(which % all.length, 1))).toBe(false);
        expect(covers(shape, [...all, ...all.slice(0, 1)])).toBe(false);
      }),
    );
  });

  it('is not so where boxes overlap, though their sizes sum to that of the tensor', () => {
    const left: readonly DimRange[] = [
      { start: 0, stop: 2 },
      { start: 0, stop: 2 },
    ];
    const shifted: readonly DimRange[] = [
      { start: 0, stop: 2 },
      { start: 1, stop: 3 },
    ];
    const chunks = [left, shifted].map((box) => ({ box, start: 0, stop: 4 }));
    expect(covers([2, 4], chunks)).toBe(false);
  });

  it('is not so where a box reaches beyond the tensor', () => {
    expect(covers([4], [{ box: [{ start: 2, stop: 6 }], start: 0, stop: 4 }])).toBe(false);
    expect(covers([2, 2], [{ box: [{ start: 0, stop: 4 }], start: 0, stop: 4 }])).toBe(false);
  });

  it('is so for a scalar and for a tensor without elements', () => {
    expect(covers([], [{ box: [], start: 0, stop: 1 }])).toBe(true);
    expect(covers([0, 3], [{ box: boxOf([0, 3]), start: 0, stop: 0 }])).toBe(true);
  });
});

it('names chunks as slices', () => {
  const whole = boxOf([4, 6]);
  const box = [
    { start: 0, stop: 4 },
    { start: 2, stop: 4 },
  ];
  const names = [
    { box: whole, start: 0, stop: 24 },
    { box: whole, start: 6, stop: 24 },
    { box, start: 0, stop: 8 },
    { box, start: 2, stop: 8 },
  ].map((chunk) => `w${formatChunk([4, 6], chunk)}`);
  expect(names).toEqual(['w', 'w[6:24]', 'w[0:4, 2:4]', 'w[0:4, 2:4][2:8]']);
});
