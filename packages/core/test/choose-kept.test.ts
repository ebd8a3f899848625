import { describe, expect, test } from 'vitest';
import { chooseKept, choiceOf, leastKept } from '../src/recomputation/choose-kept.ts';
import { allSaved, type RecomputeProblem } from '../src/recomputation/recompute-problem.ts';

/** A chain of layers whose values all have one byte and cost one operation, and are all read by the backward pass. */
function chain(length: number): RecomputeProblem {
  return Array.from({ length }, (_, index) => ({
    bytes: 1,
    cost: 1,
    inputs: index === 0 ? [] : [index - 1],
    isSaved: true,
    isFixed: index === length - 1,
  }));
}

/** A graph of numbers that only look random. */
function graphOf(seed: number, length: number): RecomputeProblem {
  let state = seed * 2654435761;
  const draw = (below: number): number => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length }, (_, index) => ({
    bytes: 1 + draw(8),
    cost: 1 + draw(20),
    inputs: index === 0 ? [] : [...new Set([index - 1 - draw(Math.min(2, index)), draw(index)])],
    isSaved: draw(4) > 0,
    isFixed: index === length - 1,
  }));
}

/** The least cost within a budget, by trying all sets. Infinity: none fits. */
function leastCost(problem: RecomputeProblem, budgetBytes: number): number {
  let least = Infinity;
  for (let set = 0; set < 2 ** problem.length; set++) {
    const kept = new Set([...problem.keys()].filter((index) => ((set >> index) & 1) === 1));
    const { cost, peakBytes } = choiceOf(problem, kept);
    if (peakBytes <= budgetBytes) least = Math.min(least, cost);
  }
  return least;
}

describe('what is kept of a forward pass', () => {
  test('is everything if that fits, and then nothing is recomputed', () => {
    expect(chooseKept(chain(16), 16)).toMatchObject({ cost: 0, peakBytes: 16 });
  });

  test.each([16, 64, 256])(
    'is, of a chain of %i values, some 2 √n at least, for one more forward pass',
    (length) => {
      const least = leastKept(chain(length));
      expect(least.peakBytes).toBeLessThanOrEqual(2 * Math.sqrt(length));
      expect(least.cost).toBeLessThan(length);
    },
  );

  test.each([24, 32, 40])('of a chain of 64 values is all that %i bytes hold', (bytes) => {
    // More than this cannot be kept. Early stretches can be long, because little is kept before them.
    expect(chooseKept(chain(64), bytes)).toMatchObject({ cost: 64 - bytes, peakBytes: bytes });
  });

  test('is null if nothing that was tried fits', () => {
    expect(chooseKept(chain(64), 8)).toBeNull();
  });

  test('costs hardly more than the best of all sets, in small graphs', () => {
    const ratios: number[] = [];
    for (let seed = 1; seed <= 40; seed++) {
      const problem = graphOf(seed, 9);
      const all = choiceOf(problem, allSaved(problem)).peakBytes;
      const least = leastKept(problem).peakBytes;
      for (const share of [0.25, 0.5, 0.75]) {
        const budget = least + share * (all - least);
        const choice = chooseKept(problem, budget);
        expect(choice?.peakBytes).toBeLessThanOrEqual(budget);
        const best = leastCost(problem, budget);
        ratios.push(best === 0 ? 1 : (choice?.cost ?? Infinity) / best);
      }
    }
    expect(Math.max(...ratios)).toBeLessThan(1.05);
  });
});
