import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Interned, KeyMap, Words } from '../src/realize/signature/words.ts';

const keyOf = (...lists: readonly number[][]) => {
  const words = new Words();
  for (const list of lists) words.pushList(list);
  return words.ownKey();
};

describe('keys', () => {
  test('differ where lists are divided in another way', () => {
    const keys = [keyOf([1, 2], [3]), keyOf([1], [2, 3]), keyOf([1, 2, 3]), keyOf([], [1, 2, 3])];
    expect(new Set(keys.map(({ words }) => words.join())).size).toBe(keys.length);
  });

  test('tell numbers apart that are alike in their low 32 bits', () => {
    const sizes = [5, 2 ** 32 + 5, 2 ** 33 + 5, 2 ** 31, 2 ** 31 - 1];
    const keys = sizes.map((size) => keyOf([size]).words.join());
    expect(new Set(keys).size).toBe(sizes.length);
  });

  test('are kept when their words are filled anew', () => {
    const words = new Words();
    words.push(1);
    const first = words.ownKey();
    words.clear();
    words.push(2);
    expect([...first.words]).toEqual([1]);
  });

  test('of any length hold what was pushed', () => {
    const list = Array.from({ length: 10_000 }, (_, index) => index);
    expect([...keyOf(list).words]).toEqual([list.length, ...list]);
  });
});

describe('a map of keys', () => {
  const a = { hash: 1, words: Int32Array.of(1, 2) };
  const b = { hash: 1, words: Int32Array.of(2, 1) };

  test('finds values by equal words, also where hashes collide', () => {
    const map = new KeyMap<string>();
    map.add(a, 'a');
    map.add(b, 'b');
    expect(map.get({ hash: 1, words: Int32Array.of(1, 2) })).toBe('a');
    expect(map.get(b)).toBe('b');
    map.delete(a);
    expect([map.get(a), map.get(b)]).toEqual([undefined, 'b']);
    map.delete(b);
    expect(map.get(b)).toBeUndefined();
  });
});

describe('interned data', () => {
  const data = fc.letrec((tie) => ({
    value: fc.oneof(
      fc.constantFrom(0, -0, NaN, Infinity, 2 ** 32, 0.5, true, null, undefined, 'a', '0'),
      fc.integer(),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('value'), { noNullPrototype: true }),
    ),
  })).value;

  test('has one number if and only if it is the same', () => {
    fc.assert(
      fc.property(data, data, (a, b) => {
        const interned = new Interned();
        const numbers = [interned.data(a), interned.data(b), interned.data(structuredClone(a))];
        expect(numbers[0] === numbers[1]).toBe(isDeepStrictEqual(a, b));
        expect(numbers[2]).toBe(numbers[0]);
      }),
      { numRuns: 1000 },
    );
  });

  test('is told apart where hashes collide', () => {
    const interned = new Interned();
    // By the birthday paradox, two of these numbers have the same hash of 32 bits.
    const numbers = Array.from({ length: 200_000 }, (_, index) => interned.data([index * 0.1]));
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

test('interned data has the number of equal data', () => {
  const interned = new Interned();
  const numbers = [{ dim: 1 }, { dim: 2 }, { dim: 1 }].map((data) => interned.data(data));
  expect(numbers).toEqual([0, 1, 0]);
  expect(interned.size).toBe(2);
});
