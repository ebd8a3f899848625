import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { oneBigBatch, outcome, strategies } from './ranks/scaled-losses.ts';
import { testMs, trainingMs } from './time-limits.ts';

describe.each([2, 3])('on %i ranks', (size) => {
  let ranks: readonly z.infer<typeof outcome>[] = [];
  let expected: readonly number[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    expected = await oneBigBatch(size);
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const url = new URL('./ranks/scaled-losses.ts', import.meta.url);
    ranks = z.array(outcome).parse(await runRanks(size, url, { world, timeoutMs: trainingMs }));
  }, testMs);

  describe.each(Object.keys(strategies))('%s', (name) => {
    it('skips a step on all ranks where one of them overflows, and changes nothing', () => {
      const each = ranks.flatMap(({ skipped }) => skipped[name] ?? []);
      expect(each).toHaveLength(size);
      for (const { taken, hashes, scale } of each) {
        expect(taken).toEqual([true, true, false, true]);
        expect(scale).toBe(2 ** 7);
        expect(hashes[2]).toBe(hashes[1]);
        expect(new Set(hashes).size).toBe(3);
      }
    });
  });

  it('1-bit Adam skips a step on all ranks where the gradients of one of them overflow', () => {
    for (const { local } of ranks) {
      expect(local.taken).toEqual([true, false, true, true]);
      expect(local.weights[1]).toEqual(local.weights[0]);
      expect(local.weights.flat().every(Number.isFinite)).toBe(true);
      expect(local.weights).toEqual(ranks[0]?.local.weights);
    }
  });

  it.each(Object.keys(strategies).filter((name) => !name.endsWith('f16')))(
    '%s on microbatches of different lengths gives the step of one big batch',
    (name) => {
      for (const { weights } of ranks) {
        const found = weights[name] ?? [];
        expect(describeDifference(found, expected, { rtol: 1e-5, atol: 1e-6 })).toBeUndefined();
      }
    },
  );
});
