import { Generator } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { drawToken, processorsOf } from '../src/index.ts';

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

test('A workspace changes no draw, whatever it has from before', () => {
  const workspace = new Float64Array(300).fill(Number.NaN);
  for (let round = 0; round < 50; round++) {
    const scores = randomScores(300);
    const drawn = generator.uniform(1, 0, 1);
    const uniform = (): typeof drawn => drawn;
    expect(drawToken(scores, { uniform }, workspace)).toBe(drawToken(scores, { uniform }));
  }
});
