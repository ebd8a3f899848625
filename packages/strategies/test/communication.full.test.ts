import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { cases, counts, modelBytes } from './ranks/communication.ts';
import { testMs, trainingMs } from './time-limits.ts';

describe.each([2, 3, 4])('bytes that a step of %i ranks communicates', (size) => {
  let ranks: readonly z.infer<typeof counts>[] = [];

  beforeAll(async () => {
    const found = await runRanks(size, new URL('./ranks/communication.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(counts).length(size).parse(found);
  }, testMs);

  const possible = Object.entries(cases).filter(([, { ranks: only = size }]) => only === size);

  it.each(possible)('are those of the paper: %s', (name, { expected }) => {
    for (const rank of ranks) {
      const found = (rank[name]?.volumeBytes ?? NaN) / modelBytes;
      expect(Math.abs(found / expected - 1)).toBeLessThan(0.02);
    }
  });

  it.each(
    possible.filter(([, { microbatches = 1, ofData = false }]) => microbatches === 1 && !ofData),
  )('are those of the plan: %s', (name) => {
    for (const rank of ranks) {
      expect(rank[name]?.messageBytes).toBe(rank[name]?.plannedBytes);
    }
  });
});
