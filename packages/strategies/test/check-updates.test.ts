import { describe, expect, it } from 'vitest';
import { checkUpdates } from '../src/local-sgd/members/check-updates.ts';

/** Updates of which each has a norm of 1 times a factor, and was learned from so many tokens. */
function updates(
  factors: readonly number[],
  tokens: readonly number[] = [],
): Parameters<typeof checkUpdates>[0] {
  return factors.map((factor, at) => ({
    number: at + 1,
    name: `member-${at + 1}`,
    isOwn: at === 0,
    bytes: new Uint8Array(8),
    tokens: tokens[at] ?? 1,
    vector: Float32Array.of(0.6 * factor, 0.8 * factor),
  }));
}

function usedOf(factors: readonly number[]): readonly number[] {
  return checkUpdates(updates(factors)).used.map(({ number }) => number);
}

describe('updates of strangers', () => {
  it('are used if they are finite and not much larger than most', () => {
    expect(usedOf([1, 2, 9, 5])).toEqual([1, 2, 3, 4]);
    expect(usedOf([1, 1, 11])).toEqual([1, 2]);
    expect(usedOf([1, Number.NaN, Infinity, 1e38])).toEqual([1]);
  });

  it('are compared with the smaller one of two, because one of two may be wrong', () => {
    expect(usedOf([1, 11])).toEqual([1]);
    expect(usedOf([11, 1])).toEqual([2]);
  });

  it('that are zero count, and say nothing about how large others may be', () => {
    expect(usedOf([0, 0, 0, 3])).toEqual([1, 2, 3, 4]);
    expect(usedOf([0, 0])).toEqual([1, 2]);
  });

  it.each([
    [
      [100, 1000, 1001, 100],
      [100, 1000, 1000, 100],
    ],
    // A member of two that is much faster, and an honest one of three.
    [
      [1, 11],
      [1, 10],
    ],
    [
      [1, 1, 11],
      [1, 1, 10],
    ],
  ])('of %o tokens count as %o, at most ten times the median', (said, counted) => {
    const { used, refused } = checkUpdates(
      updates(
        said.map(() => 1),
        said,
      ),
    );
    expect(used.map(({ tokens }) => tokens)).toEqual(counted);
    expect(refused).toEqual([]);
  });

  it('may be larger if they were learned from more tokens, and count with ten times the median norm', () => {
    // 50 steps of a fast member beside one step of a slow one.
    const { used, refused } = checkUpdates(updates([1, 40, 1], [4, 200, 4]));
    expect(refused).toEqual([]);
    expect(used.map(({ vector }) => Math.hypot(...vector))).toEqual([
      expect.closeTo(1, 6),
      expect.closeTo(10, 5),
      expect.closeTo(1, 6),
    ]);
  });

  it('are refused if their tokens do not explain their norm', () => {
    expect(checkUpdates(updates([1, 40, 1], [4, 12, 4])).refused).toMatchObject([{ number: 2 }]);
  });

  it.each([
    [
      [1, 40, 0.5],
      [4, 200, 2 ** 50],
    ],
    [
      [1, 1, 40, 40, 0.5],
      [4, 4, 200, 200, 2 ** 50],
    ],
  ])('are refused for no lie of another about its tokens: norms %o, tokens %o', (norms, tokens) => {
    expect(checkUpdates(updates(norms, tokens)).refused).toEqual([]);
  });

  it('are refused if they say no number of tokens', () => {
    const wrong = [100, 0.5, Number.NaN, -1, 0, Infinity, 2 ** 60];
    expect(
      checkUpdates(
        updates(
          wrong.map(() => 1),
          wrong,
        ),
      ).used,
    ).toHaveLength(1);
  });

  it('are refused with the name of their member', () => {
    expect(checkUpdates(updates([1, 1, Number.NaN])).refused).toEqual([
      { number: 3, name: 'member-3', reason: 'values that are not finite' },
    ]);
  });
});
