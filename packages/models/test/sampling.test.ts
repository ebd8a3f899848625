import { Generator, TensorStateError } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { expNegative } from '../src/generation/powers.ts';
import { drawToken, mostLikely, processorsOf } from '../src/index.ts';

const generator = new Generator(7);
const settings = { temperature: 1, topK: null, topP: 1, minP: 0, repetitionPenalty: 1 };

/** Random scores, many of which are equal. Shape: [V]. */
function randomScores(vocabulary: number): Float32Array {
  return generator.uniform(vocabulary, -8, 8).map((score) => Math.round(score * 4) / 4);
}

describe('The processors of scores', () => {
  test.each([1, 2, 3, 50, 199, 200, 201, 1000])(
    'keep the %d highest scores, and those that equal the lowest of them',
    (topK) => {
      for (let round = 0; round < 20; round++) {
        const scores = randomScores(200);
        const least = scores.toSorted()[Math.max(0, scores.length - topK)] ?? 0;
        const expected = scores.map((score) => (score < least ? Number.NEGATIVE_INFINITY : score));
        for (const process of processorsOf({ ...settings, topK }, true)) process(scores, []);
        expect(scores).toEqual(expected);
      }
    },
  );

  test.each([0.1, 0.5, 0.9, 0.999])(
    'keep the fewest most likely tokens whose probabilities sum to %d or more',
    (topP) => {
      for (let round = 0; round < 20; round++) {
        const scores = randomScores(100);
        const powers = Array.from(scores, Math.exp);
        const whole = powers.reduce((sum, power) => sum + power, 0);
        for (const process of processorsOf({ ...settings, topP }, true)) process(scores, []);
        const kept = powers.filter((_, token) => scores[token] !== Number.NEGATIVE_INFINITY);
        const removed = powers.filter((_, token) => scores[token] === Number.NEGATIVE_INFINITY);
        const sum = kept.reduce((total, power) => total + power, 0) / whole;
        expect(sum).toBeGreaterThanOrEqual(topP - 1e-9);
        expect(sum - Math.min(...kept) / whole).toBeLessThanOrEqual(topP + 1e-9);
        expect(Math.max(0, ...removed)).toBeLessThanOrEqual(Math.min(...kept));
      }
    },
  );
});

describe('A drawn token', () => {
  test.each([1, 2, 255, 256, 257, 1000])(
    'of %d is the first one whose probability, with those before it, is more than the drawn number.',
    (vocabulary) => {
      for (let round = 0; round < 200; round++) {
        const scores = randomScores(vocabulary);
        for (let token = 0; token < vocabulary - 1; token += 3) {
          if (round % 2 === 0) scores[token] = Number.NEGATIVE_INFINITY;
        }
        const powers = Array.from(scores, Math.exp);
        const whole = powers.reduce((sum, power) => sum + power, 0);
        const drawn = generator.uniform(1, 0, 1);
        const token = drawToken(scores, { uniform: () => drawn });
        const sumTo = (end: number): number =>
          powers.slice(0, end).reduce((sum, power) => sum + power, 0) / whole;
        expect(sumTo(token)).toBeLessThanOrEqual((drawn[0] ?? 0) + 1e-9);
        expect(sumTo(token + 1)).toBeGreaterThanOrEqual((drawn[0] ?? 0) - 1e-9);
        expect(scores[token]).toBeGreaterThan(Number.NEGATIVE_INFINITY);
      }
    },
  );

  test('is a possible one for the least and the largest number.', () => {
    const scores = new Float32Array(600).fill(Number.NEGATIVE_INFINITY);
    scores[299] = -3;
    scores[301] = -1000;
    for (const drawn of [0, 0.5, 1 - 2 ** -24, 1]) {
      expect(drawToken(scores, { uniform: () => Float32Array.of(drawn) })).toBe(299);
    }
  });

  test('does not come from scores that are no numbers.', () => {
    const draw = (...scores: readonly number[]): number =>
      drawToken(Float32Array.from(scores), generator);
    expect(() => draw(1, Number.NaN)).toThrow(/scores that are NaN or infinite/);
    expect(() => draw(1, Number.POSITIVE_INFINITY)).toThrow(TensorStateError);
    expect(() => draw(Number.NEGATIVE_INFINITY)).toThrow(TensorStateError);
    expect(() => mostLikely(Float32Array.of(Number.NaN, 1))).toThrow(TensorStateError);
  });
});

test('Powers of e have a relative error of at most 1e-11.', () => {
  for (const power of generator.uniform(20_000, -700, 0)) {
    expect(Math.abs(expNegative(power) / Math.exp(power) - 1)).toBeLessThan(1e-11);
  }
  expect(expNegative(0)).toBe(1);
  expect([-1e3, -1e30, Number.NEGATIVE_INFINITY].map(expNegative)).toEqual([0, 0, 0]);
  expect(expNegative(Number.NaN)).toBeNaN();
});
