import { describe, expect, test } from 'vitest';
import { chooseSaved, choiceOf, leastSaved } from '../src/recomputation/choose-saved.ts';
import {
  allSaved,
  type RecomputeProblem,
  recomputationOf,
  savedAs,
} from '../src/recomputation/recompute-problem.ts';

/**
 * A chain of layers whose values all have one byte and cost one operation, and are all read by the backward pass. A move takes
 * `moveCost` operations.
 */
function chain(length: number, moveCost: number | null = null): RecomputeProblem {
  const values = Array.from({ length }, (_, index) => ({
    bytes: 1,
    cost: 1,
    moveCost,
    inputs: index === 0 ? [] : [index - 1],
    isSaved: true,
    isFixed: index === length - 1,
  }));
  return { values, overlapsMoves: true };
}

/** A graph of numbers that only look random. */
function graphOf(seed: number, length: number, isMovable = false): RecomputeProblem {
  let state = seed * 2654435761;
  const draw = (below: number): number => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const values = Array.from({ length }, (_, index) => ({
    bytes: 1 + draw(8),
    cost: 1 + draw(20),
    inputs: index === 0 ? [] : [...new Set([index - 1 - draw(Math.min(2, index)), draw(index)])],
    isSaved: draw(4) > 0,
    isFixed: index === length - 1,
    moveCost: isMovable && draw(5) > 0 ? 1 + draw(20) : null,
  }));
  return { values, overlapsMoves: !isMovable || draw(2) === 0 };
}

/** The least cost within a budget, by trying all choices. Infinity: none fits. */
function leastCost(problem: RecomputeProblem, budgetBytes: number): number {
  let least = Infinity;
  const visit = (saved: Map<number, 'keep' | 'offload'>, index: number): void => {
    const value = problem.values[index];
    if (value === undefined) {
      const { cost, peakBytes } = choiceOf(problem, saved);
      if (peakBytes <= budgetBytes) least = Math.min(least, cost);
      return;
    }
    visit(saved, index + 1);
    visit(new Map([...saved, [index, 'keep']]), index + 1);
    if (value.moveCost !== null) visit(new Map([...saved, [index, 'offload']]), index + 1);
  };
  visit(new Map(), 0);
  return least;
}

/** By how much the search costs more than the best of all choices, in small graphs with several budgets. */
function ratiosOf(problems: readonly RecomputeProblem[]): readonly number[] {
  return problems.flatMap((problem) => {
    const all = choiceOf(problem, allSaved(problem)).peakBytes;
    const least = leastSaved(problem)[1].peakBytes;
    return [0.25, 0.5, 0.75].map((share) => {
      const budget = least + share * (all - least);
      const choice = chooseSaved(problem, budget);
      expect(choice?.peakBytes).toBeLessThanOrEqual(budget);
      const best = leastCost(problem, budget);
      return best === 0 ? 1 : (choice?.cost ?? Infinity) / best;
    });
  });
}

describe('what is saved of a forward pass', () => {
  test('is everything if that fits, and then nothing is recomputed', () => {
    expect(chooseSaved(chain(16), 16)).toMatchObject({ cost: 0, peakBytes: 16 });
  });

  test.each([16, 64, 256])(
    'is, of a chain of %i values, some 2 √n at least, for one more forward pass',
    (length) => {
      const [least] = leastSaved(chain(length));
      expect(least.peakBytes).toBeLessThanOrEqual(2 * Math.sqrt(length));
      expect(least.cost).toBeLessThan(length);
    },
  );

  test.each([24, 32, 40])('of a chain of 64 values is all that %i bytes hold', (bytes) => {
    // More than this cannot be kept. Early stretches can be long, because little is kept before them.
    expect(chooseSaved(chain(64), bytes)).toMatchObject({ cost: 64 - bytes, peakBytes: bytes });
  });

  test('is null if nothing that was tried fits', () => {
    expect(chooseSaved(chain(64), 8)).toBeNull();
  });

  test('costs hardly more than the best of all choices, in small graphs', () => {
    const seeds = Array.from({ length: 40 }, (_, index) => index + 1);
    expect(Math.max(...ratiosOf(seeds.map((seed) => graphOf(seed, 9))))).toBeLessThan(1.05);
    const ratios = ratiosOf(seeds.map((seed) => graphOf(seed, 6, true)));
    expect(Math.max(...ratios)).toBeLessThan(1.05);
  });
});

describe('a value that leaves the device', () => {
  test('is in memory while the backward pass reads it, and one stretch before', () => {
    const problem = chain(6, 0.5);
    expect(choiceOf(problem, savedAs('offload', problem.values.keys())).peakBytes).toBe(3);
  });

  test('costs nothing but its issue if the device computes meanwhile', () => {
    const problem = chain(6, 0.5);
    const { waitCost, cost } = recomputationOf(problem, savedAs('offload', [0, 2]));
    // The others are recomputed, but for the last one.
    expect(cost - waitCost).toBe(3);
    expect(waitCost).toBeCloseTo((2 * (0.5 + 0.5)) / 64);
  });

  test('costs what the link has no time for', () => {
    const problem = chain(4, 3);
    // The second one leaves when the first has left: 3 operations after it was computed, of which one was computed meanwhile.
    const { waitCost } = recomputationOf(problem, savedAs('offload', [0, 1]));
    // The first to come back comes 3 after the last has left at 7, when the others are computed at 6 and the backward pass has
    // done 2 × 2 operations; the other one follows 3 later, of which 2 + 1 are computed meanwhile.
    expect(waitCost).toBeGreaterThan(2);
    const { waitCost: alone } = recomputationOf(
      { ...problem, overlapsMoves: false },
      savedAs('offload', [0, 1]),
    );
    expect(alone).toBe(12);
  });

  test.each([8, 16])(
    'lets a chain of 64 values fit into %i bytes without recomputing any',
    (bytes) => {
      const choice = chooseSaved(chain(64, 0.5), bytes);
      expect(choice?.peakBytes).toBeLessThanOrEqual(bytes);
      expect(recomputationOf(chain(64, 0.5), choice?.saved ?? new Map()).recomputeCost).toBe(0);
    },
  );

  test('is none if a move takes longer than to recompute', () => {
    const problem = chain(16, 50);
    const choice = chooseSaved(problem, 10);
    expect([...(choice?.saved.values() ?? [])]).not.toContain('offload');
  });
});
