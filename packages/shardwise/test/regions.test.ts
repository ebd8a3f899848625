import {
  type Block,
  blockOf,
  blockShape,
  commonRuns,
  elementCount,
  type Region,
} from '@shardwise/core/extend';
import { array, assert, integer, property, tuple } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { covers } from '../src/checkpoint/covers.ts';
import { formatRegion } from '../src/checkpoint/format-region.ts';

/** The elements of a region, as their numbers in the whole tensor, in the order of the region. */
function elementsOf(shape: readonly number[], { block, start, stop }: Region): number[] {
  const all = block.reduce<number[]>(
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

/** Some region of a tensor, for numbers from 0 to 100. */
function regionOf(shape: readonly number[], numbers: readonly number[]): Region {
  const between = (count: number, a = 0, b = 100): { start: number; stop: number } => {
    const [start = 0, stop = 0] = [a, b]
      .map((each) => Math.round((each / 100) * count))
      .toSorted((first, second) => first - second);
    return { start, stop };
  };
  const block = shape.map((size, dim) => between(size, numbers[2 * dim], numbers[2 * dim + 1]));
  return { block, ...between(elementCount(blockShape(block)), numbers[8], numbers[9]) };
}

describe('the runs that two regions have in common', () => {
  it('are all elements that both have, in order, at their places in each', () => {
    assert(
      property(shapes, fractions, fractions, (shape, a, b) => {
        const [first, second] = [regionOf(shape, a), regionOf(shape, b)];
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
    const block = blockOf([64, 64, 64]);
    const runs = commonRuns({ block, start: 0, stop: 9000 }, { block, start: 5000, stop: 20_000 });
    expect([...runs]).toEqual([{ first: 5000, second: 0, count: 4000 }]);
  });
});

describe('whether regions make up a tensor', () => {
  /** Columns of a [rows, columns] tensor for each of some ranks, cut into stretches. */
  function columns(rows: number, perRank: number, ranks: number, parts: number): Region[] {
    return Array.from({ length: ranks }, (_, rank): Block => [
      { start: 0, stop: rows },
      { start: rank * perRank, stop: (rank + 1) * perRank },
    ]).flatMap((block) => {
      const total = rows * perRank;
      const each = Math.ceil(total / parts);
      return Array.from({ length: parts }, (_, part) => ({
        block,
        start: Math.min(total, part * each),
        stop: Math.min(total, (part + 1) * each),
      })).filter(({ start, stop }) => start < stop);
    });
  }
  const small = integer({ min: 1, max: 6 });

  it('is so for stretches of blocks side by side, and not without one of them', () => {
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

  it('is not so where blocks overlap, though their sizes sum to that of the tensor', () => {
    const left: Block = [
      { start: 0, stop: 2 },
      { start: 0, stop: 2 },
    ];
    const shifted: Block = [
      { start: 0, stop: 2 },
      { start: 1, stop: 3 },
    ];
    const regions = [left, shifted].map((block) => ({ block, start: 0, stop: 4 }));
    expect(covers([2, 4], regions)).toBe(false);
  });

  it('is not so where a block reaches beyond the tensor', () => {
    expect(covers([4], [{ block: [{ start: 2, stop: 6 }], start: 0, stop: 4 }])).toBe(false);
    expect(covers([2, 2], [{ block: [{ start: 0, stop: 4 }], start: 0, stop: 4 }])).toBe(false);
  });

  it('is so for a scalar and for a tensor without elements', () => {
    expect(covers([], [{ block: [], start: 0, stop: 1 }])).toBe(true);
    expect(covers([0, 3], [{ block: blockOf([0, 3]), start: 0, stop: 0 }])).toBe(true);
  });
});

it('names regions as slices', () => {
  const whole = blockOf([4, 6]);
  const block = [
    { start: 0, stop: 4 },
    { start: 2, stop: 4 },
  ];
  const names = [
    { block: whole, start: 0, stop: 24 },
    { block: whole, start: 6, stop: 24 },
    { block, start: 0, stop: 8 },
    { block, start: 2, stop: 8 },
  ].map((region) => `w${formatRegion([4, 6], region)}`);
  expect(names).toEqual(['w', 'w[6:24]', 'w[0:4, 2:4]', 'w[0:4, 2:4][2:8]']);
});
