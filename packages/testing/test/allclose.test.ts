import { assertAllclose, describeDifference, f32 } from '@shardwise/testing';
import { toBeAllclose } from '@shardwise/testing/vitest';
import { describe, expect, test } from 'vitest';

describe('two arrays are all close', () => {
  test('within atol + rtol * |expected|', () => {
    expect(describeDifference([1.0009], [1], { rtol: 1e-3, atol: 0 })).toBeUndefined();
    expect(describeDifference([1.0011], [1], { rtol: 1e-3, atol: 0 })).toBeDefined();
    expect(describeDifference([0.0009], [0], { rtol: 0, atol: 1e-3 })).toBeUndefined();
  });

  test('where both are NaN, or the same infinity', () => {
    expect(
      describeDifference([NaN, Infinity, -Infinity], [NaN, Infinity, -Infinity]),
    ).toBeUndefined();
  });

  test('and never where only one is', () => {
    for (const [actual, expected] of [
      [1, NaN],
      [NaN, 1],
      [1, Infinity],
      [Infinity, 1],
      [Infinity, -Infinity],
    ]) {
      expect(
        describeDifference([actual ?? 0], [expected ?? 0], { rtol: 1, atol: 1e9 }),
      ).toBeDefined();
    }
  });

  test('and the zeros are equal', () => {
    expect(describeDifference([-0], [0], { rtol: 0, atol: 0 })).toBeUndefined();
  });
});

describe('a difference is told', () => {
  test('with the index of each element', () => {
    const [actual, expected] = [f32([2, 3], [0, 1, 2, 3, 4, 5]), f32([2, 3], [0, 1, 2, 3, 8, 5])];
    expect(describeDifference(actual, expected, { rtol: 0, atol: 0.5 })).toBe(
      '1 of 6 elements of [2, 3] differ by more than 0.5 + 0 * |expected|:\n' +
        '  [1, 1]: 4, expected 8 (off by 4)',
    );
  });

  test('for five elements, and counts the rest', () => {
    expect(describeDifference(f32([8], 1), f32([8], 0))).toContain(
      '[4]: 1, expected 0 (off by 1)\n  and 3 more',
    );
  });

  test('by the shapes where they differ', () => {
    expect(describeDifference(f32([2, 1], 0), f32([1, 2], 0))).toBe(
      'shape [2, 1] where [1, 2] is expected',
    );
    expect(describeDifference([1, 2], [1])).toBe('shape [2] where [1] is expected');
  });

  test('by an error of assertAllclose', () => {
    expect(() => assertAllclose([1], [2])).toThrow('[0]: 1, expected 2');
    expect(() => assertAllclose([2], [2])).not.toThrow();
  });

  test('by the matcher toBeAllclose', () => {
    expect.extend({ toBeAllclose });
    expect([1, 2]).toBeAllclose([1, 2]);
    expect([1, 2]).not.toBeAllclose([1, 3]);
    expect(() => expect([1, 2]).toBeAllclose([1, 3])).toThrow('[1]: 2, expected 3');
  });
});
