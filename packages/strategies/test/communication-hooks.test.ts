import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  element,
  hookObservations,
  hooks,
  type HookObservations,
} from './ranks/communication-hooks.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
let ranks: readonly HookObservations[] = [];

beforeAll(async () => {
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const found = await runRanks(size, new URL('./ranks/communication-hooks.ts', import.meta.url), {
    world,
    timeoutMs: trainingMs,
  });
  ranks = z.array(hookObservations).length(size).parse(found);
}, testMs);

describe("a hook gives the mean of the ranks' gradients", () => {
  // The loss is the mean of four elements p + x + rank, so each element has the gradient 1/4 on every rank.
  it.each(Object.keys(hooks))('%s', (name) => {
    for (const { conformance } of ranks) {
      const passes = conformance[name] ?? [];
      expect(passes).toHaveLength(4);
      for (const gradient of passes) {
        expect(gradient).toHaveLength(4);
        for (const value of gradient) expect(value).toBeCloseTo(0.25, 6);
      }
    }
  });
});

it.each([
  ['none', 16],
  ['f16CompressHook', 8],
  ['bf16CompressHook', 8],
])('four gradients travel with the hook %s as %i bytes', (name, bytes) => {
  for (const rank of ranks) expect(rank.bytes[name]).toBe(bytes);
});

describe('PowerSGD', () => {
  const mean = Array.from({ length: 64 }, (_, index) => element(index, (size - 1) / 2));
  const norm = Math.hypot(...mean);
  const sumsOf = (name: string): readonly number[][] => {
    const [first, ...others] = ranks.map(({ powerSgd }) => powerSgd[name]?.sums);
    for (const other of others) expect(other).toEqual(first);
    expect(first).toHaveLength(40);
    return first ?? [];
  };
  /** The relative distance of the mean gradient of the first passes from the true gradient. */
  const distance = (name: string, passes: number): number =>
    Math.hypot(...mean.map((value, i) => (sumsOf(name)[passes - 1]?.[i] ?? NaN) / passes - value)) /
    norm;

  it('with as many columns as the matrix has is exact', () => {
    expect(distance('as many columns as the matrix', 1)).toBeLessThan(1e-5);
    expect(distance('as many columns as the matrix', 40)).toBeLessThan(1e-5);
  });

  it('PowerSGD gives later what it has left out, with error feedback', () => {
    expect(distance('one column with error feedback', 1)).toBeGreaterThan(0.3);
    expect(distance('one column with error feedback', 40)).toBeLessThan(0.2);
  });

  it('never gives what it has left out, without', () => {
    expect(distance('one column without', 40)).toBeGreaterThan(0.3);
  });

  it('PowerSGD sends two columns instead of the matrix, and the bias as it is', () => {
    for (const { powerSgd } of ranks) {
      expect(powerSgd['one column with error feedback']?.bytes).toBe(2 * 32 + 32);
      expect(powerSgd['one column that is not worth it']?.bytes).toBe(8 * 32 + 32);
    }
  });
});

describe('a communication hook', () => {
  it('a communication hook is told of each bucket, in the order in which they leave', () => {
    for (const { buckets } of ranks) {
      expect(buckets).toEqual([
        { index: 0, isLast: false, shapes: [[8]], ranks: size },
        { index: 1, isLast: true, shapes: [[8, 8]], ranks: size },
      ]);
    }
  });

  it('that threw leaves nothing behind for the next pass', () => {
    for (const { recovered } of ranks)
      expect(recovered).toEqual(Array.from({ length: 64 }, () => 3));
  });

  it.each([
    ['no gradients', 'SHAPE', '1 gradients of the communication hook for bucket 0: 0 of them'],
    ['another shape', 'SHAPE', 'f32 [2, 2]: f32 [] of the communication hook'],
    ['another dtype', 'DTYPE', 'f32 [2, 2]: i32 [2, 2] of the communication hook'],
    ['a hook and a factor', 'CONFIG', 'a hook that averages in its own way'],
    ['a factor of 0', 'CONFIG', 'gradientPredivideFactor: 0'],
    ['gradients outside their message', 'CONFIG', 'gradientAsBucketView: false'],
    ['error feedback from the first step on', 'CONFIG', 'Use a startIteration of 2 or more'],
    ['half a column', 'CONFIG', 'PowerSGD of rank 0.5'],
  ])('is refused %s', (name, code, message) => {
    for (const { refusals } of ranks) {
      expect(refusals[name]?.code).toBe(code);
      expect(refusals[name]?.message).toContain(message);
    }
  });
});
