import { Sized } from '@shardwise/core/base';
import { assert, integer, nat, property } from 'fast-check';
import { describe, expect, it } from 'vitest';

const symbols = [
  { max: 512, seen: 100, spacing: 1 },
  { max: 64, seen: 40, spacing: 1 },
];

describe('what depends on sizes', () => {
  it('is known at all sizes, from a few', () => {
    const shapeOf = ([b = 0, t = 0]: readonly number[]) => ({
      shape: [b, t - 1, 3 * b * t],
      bytes: 4 * b * b * t,
      padded: 512 - b,
      box: (b + 2) * (t - 3),
      both: b + 2 * t + 5,
      square: 7 * t * (b + 1) ** 2,
      mean: 1 / (b * t),
      names: ['x', 'y'],
      nested: new Map([[7, { dims: [0, b / 2] }]]),
    });
    const sized = Sized.of(symbols, shapeOf);
    for (const sizes of [
      [2, 4],
      [100, 40],
      [512, 64],
      [30, 30],
    ]) {
      expect(sized?.at(sizes)).toEqual(shapeOf(sizes));
    }
  });

  it('may be anything else in the place of numbers that depend on them', () => {
    const sized = Sized.of(symbols, ([b = 0, t = 0]) => ({ fixed: 3, sizes: [b * t, 7, t + 1] }));
    expect(sized?.with(({ powers, constant }) => -(powers?.[0] ?? 0) - constant)).toEqual({
      fixed: 3,
      sizes: [-2, 7, -1],
    });
  });

  it('shares what does not depend on them', () => {
    const table = [1, 2, 3];
    const sized = Sized.of(symbols, ([b = 0]) => ({ table, rows: [b] }));
    expect(sized?.isFixed).toBe(false);
    expect(sized?.at([7, 7]).table).toBe(table);
    expect(Sized.of(symbols, () => ({ table }))?.isFixed).toBe(true);
  });

  it('has the same objects where the sizes that they depend on have not changed', () => {
    const sized = Sized.of(symbols, ([b = 0, t = 0]) => ({
      rows: { count: b, byName: new Map([['rows', b]]) },
      keys: [t],
    }));
    const [first, next] = [sized?.at([2, 4]), sized?.at([2, 5])];
    expect(next).toEqual({ rows: { count: 2, byName: new Map([['rows', 2]]) }, keys: [5] });
    expect(next?.rows).toBe(first?.rows);
    expect(sized?.at([3, 5]).rows).not.toBe(first?.rows);
  });

  it('has NaN for what varies as a pattern, and at most the largest numbers', () => {
    const sized = Sized.of(symbols, ([b = 0, t = 0]) => [3, b * t, 600 - b]);
    expect(sized?.pattern()).toEqual([3, NaN, NaN]);
    expect(sized?.most()).toEqual([3, 512 * 64, 598]);
  });

  it('is not known where its structure or a formula is another one at other sizes', () => {
    expect(Sized.of(symbols, ([b = 0]) => (b % 2 === 0 ? [b] : [b, b]))).toBeUndefined();
    expect(Sized.of(symbols, ([b = 0]) => b % 7)).toBeUndefined();
    expect(Sized.of(symbols, ([b = 0]) => 2 ** b)).toBeUndefined();
    expect(Sized.of(symbols, ([b = 0]) => `${b}`)).toBeUndefined();
    expect(
      Sized.of(symbols, () => {
        throw new Error('no such size');
      }),
    ).toBeUndefined();
  });

  it('throws mistakes in the code that is looked at, because they have nothing to do with sizes', () => {
    const mistaken = (): number => {
      throw new TypeError('x is not a function');
    };
    expect(() => Sized.of(symbols, mistaken)).toThrow(TypeError);
  });

  it('is looked at below what was seen, and elsewhere where that looks special', () => {
    const looked: number[] = [];
    const table = 99;
    const sized = Sized.of(symbols, ([b = 0]) => {
      looked.push(b);
      return b === table ? ['all rows'] : ['rows', b];
    });
    expect(sized?.at([60, 2])).toEqual(['rows', 60]);
    expect(Math.max(...looked)).toBeLessThanOrEqual(100);
  });

  it('has the formula of any product of symbols, sums and numbers', () => {
    const small = integer({ min: -9, max: 9 });
    assert(
      property(small, small, small, nat(2), nat(2), (a, b, c, p, q) => {
        const numberAt = ([s = 0, t = 0]: readonly number[]): number[] => [
          s ** p * t ** q * (a + 12),
          s ** p * (a * t + b),
          a * s + b * t + c,
          (s + a) * (t + b) * (c + 10),
        ];
        const sized = Sized.of(symbols, numberAt);
        expect(sized?.at([13, 57])).toEqual(numberAt([13, 57]));
        expect(sized?.at([500, 3])).toEqual(numberAt([500, 3]));
      }),
    );
  });
});
