import { Generator } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { ChunkBudget } from '../src/scheduling/chunk-budget.ts';
import { Scheduler } from '../src/scheduling/scheduler.ts';
import type { StepPlan } from '../src/scheduling/step-plan.ts';
import type { Sequence } from '../src/scheduling/sequence.ts';

describe('Times between tokens', () => {
  /** What a step takes, in milliseconds of a clock that only steps move. */
  const msOf = ({ chunks }: StepPlan): number =>
    chunks.reduce((ms, { count }) => ms + (count > 1 ? 3 * count : 2), 20);

  /** Sequences with long prompts arrive at random. Returns the times between tokens and the sizes of chunks. */
  function times(options: { readonly maxStepRatio?: number }) {
    const scheduler = new Scheduler({ blockCount: 1000, prefixCaching: false, ...options });
    const generator = new Generator(1);
    const arrivals: number[] = [];
    for (let at = 0; arrivals.length < 60; at += 3000 * (generator.uniform(1, 0, 1)[0] ?? 0)) {
      arrivals.push(at);
    }
    const gaps: number[] = [];
    const sizes = new Set<number>();
    const last = new Map<Sequence, number>();
    let now = 0;
    while (arrivals.length > 0 || !scheduler.isIdle) {
      while ((arrivals[0] ?? Infinity) <= now) {
        arrivals.shift();
        scheduler.add({ prompt: Array.from({ length: 150 }, () => 1), maxNewTokens: 120 });
      }
      if (scheduler.isIdle) {
        now = arrivals[0] ?? now;
        continue;
      }
      const plan = scheduler.plan(now);
      const ms = msOf(plan);
      now += ms;
      scheduler.complete(plan);
      scheduler.noteTime(plan, ms);
      const hasSingle = plan.chunks.some(({ count }) => count === 1);
      for (const { sequence, count, isLast } of plan.chunks) {
        if (count > 1 && hasSingle) sizes.add(count);
        if (!isLast) continue;
        scheduler.append(sequence, 1);
        const before = last.get(sequence);
        if (before !== undefined) gaps.push(now - before);
        last.set(sequence, now);
        if (sequence.tokens.length === 270) scheduler.remove(sequence);
      }
    }
    gaps.sort((one, other) => one - other);
    const at = (share: number): number => gaps[Math.floor(share * (gaps.length - 1))] ?? NaN;
    return { p99OfMedian: at(0.99) / at(0.5), sizes: [...sizes] };
  }

  test('have a 99th percentile below three times the median, if chunks are as small as times ask for.', () => {
    expect(times({}).p99OfMedian).toBeGreaterThan(3);
    const { p99OfMedian, sizes } = times({ maxStepRatio: 2.5 });
    expect(p99OfMedian).toBeLessThanOrEqual(3);
    // Beside n single tokens, 20 + 2 n ms. A token of a chunk takes 3 ms.
    expect(Math.max(...sizes)).toBeLessThan(64);
    expect(Math.max(...sizes)).toBeGreaterThanOrEqual(8);
  });

  describe('measured in steps', () => {
    const budgetAfter = (maxStepRatio: number, ...ms: readonly number[]): ChunkBudget => {
      const budget = new ChunkBudget(64, maxStepRatio);
      // Each step takes 8 ms, and 1 ms for each token.
      for (const each of ms) budget.note({ singles: 2, chunkTokens: 0, ms: each });
      budget.note({ singles: 2, chunkTokens: 8, ms: 18 });
      return budget;
    };

    test('bound a chunk by a multiple of 8 tokens, up to the limit.', () => {
      expect(budgetAfter(2.5, 10).tokensBeside(2)).toBe(8);
      expect(budgetAfter(2.7, 10).tokensBeside(2)).toBe(16);
      expect(budgetAfter(4.3, 10).tokensBeside(2)).toBe(32);
      expect(budgetAfter(7.3, 10).tokensBeside(2)).toBe(56);
      expect(budgetAfter(7.4, 10).tokensBeside(2)).toBe(64);
      expect(budgetAfter(100, 10).tokensBeside(2)).toBe(64);
      expect(budgetAfter(1, 10).tokensBeside(2)).toBe(8);
    });

    test('bound it by what a step takes with the sequences that wait now.', () => {
      const budget = budgetAfter(2.5, 10);
      // 1.5 times 8 + 1, 8 + 8 and 8 + 32 ms.
      expect([1, 8, 32].map((singles) => budget.tokensBeside(singles))).toEqual([8, 24, 56]);
    });

    test('do not count if a single step took long, as one that compiles.', () => {
      expect(budgetAfter(2.7, 10, 10, 10_000).tokensBeside(2)).toBe(16);
    });

    test('bound nothing before they are known, nor on a clock that stands still.', () => {
      const budget = new ChunkBudget(64, 2.5);
      expect(budget.tokensBeside(1)).toBe(64);
      budget.note({ singles: 0, chunkTokens: 64, ms: 0 });
      // A first chunk beside others is a short one.
      expect(budget.tokensBeside(1)).toBe(8);
      budget.note({ singles: 1, chunkTokens: 8, ms: 0 });
      expect(budget.tokensBeside(1)).toBe(64);
    });
  });
});
