import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { dp, type Outcome, outcome, tp } from './ranks/construct-partitioned.ts';
import { testMs, trainingMs } from './time-limits.ts';

describe('a model that is constructed in parts, for tensor parallelism too', () => {
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    const size = dp * tp;
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const url = new URL('./ranks/construct-partitioned.ts', import.meta.url);
    const found = await runRanks(size, url, { world, timeoutMs: trainingMs });
    ranks = z.array(outcome).length(size).parse(found);
  }, testMs);

  it.each(['fsdp', 'zero-3'] as const)('has the values of one that was built whole: %s', (name) => {
    for (const { whole, [name]: parts } of ranks) {
      expect(parts.hash).toBe(whole.hash);
      expect(parts.random).toBe(whole.random);
    }
  });

  it.each(['fsdp', 'zero-3'] as const)('keeps no more than the part of a rank: %s', (name) => {
    for (const { [name]: parts } of ranks) {
      expect(parts.keptBytes).toBeGreaterThan(0);
      expect(parts.keptBytes).toBe(parts.plannedBytes);
    }
  });

  it.each([
    [
      'without tensorParallel',
      /ConfigError: a parameter .* as shard\(0: tp·dp\), by tensor-parallel × fsdp: it was constructed in parts, and this rank kept its part of shard\(0: dp\)\. Give constructSharded the strategy/,
    ],
    ['other styles', /: it was constructed in parts, and this rank kept its part of/],
    [
      'whole parameters',
      /as shard\(0: tp\), by tensor-parallel × zero-1: it was constructed in parts/,
    ],
    ['whole parameters, ddp', /as shard\(0: tp\), by tensor-parallel × ddp: it was constructed/],
  ])('is refused by a strategy that cuts otherwise: %s', (name, message) => {
    for (const { refusals } of ranks) expect(refusals[name]).toMatch(message);
  });
});
