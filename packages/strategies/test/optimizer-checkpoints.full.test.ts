import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { cases, keyOf, otherVariant, results } from './ranks/optimizer-checkpoints.ts';
import { testMs, trainingMs } from './time-limits.ts';

type Results = z.infer<typeof results>;

async function onRanks(size: number, data: object): Promise<readonly Results[]> {
  const url = new URL('./ranks/optimizer-checkpoints.ts', import.meta.url);
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const found = await spawnRanks(size, url, { world, data, timeoutMs: trainingMs });
  return z.array(results).length(size).parse(found);
}

/** The relative tolerance. 8-bit states and 1-bit messages depend on how the ranks cut parameters. */
function toleranceOf(optimizer: string): number {
  if (optimizer === 'AdamW8bit') return 2e-2;
  return optimizer === '1-bit Adam' ? 0.2 : 1e-5;
}

const saving = 2;
const others = [1, 3];

describe('the checkpoint of an optimizer', () => {
  let directory = '';
  let saved: readonly Results[] = [];
  const loaded = new Map<number, readonly Results[]>();

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-optimizers-'));
    saved = await onRanks(saving, { directory, saves: true });
    for (const size of others) loaded.set(size, await onRanks(size, { directory, saves: false }));
  }, testMs);

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each(cases.map(keyOf))('has the next losses come out bit for bit: %s', (key) => {
    for (const rank of saved) {
      expect(rank[key]?.uninterrupted).toHaveLength(5);
      expect(rank[key]?.resumed).toEqual(rank[key]?.uninterrupted);
    }
  });

  it.each(
    cases.filter(({ variant }) => variant !== 'DDP with a ZeroRedundancyOptimizer').map(keyOf),
  )('is not needed where state dicts are kept: %s', (key) => {
    for (const rank of saved) expect(rank[key]?.remembered).toEqual(rank[key]?.uninterrupted);
  });

  const mean = (ranks: readonly Results[], key: string, kind: keyof Results[string]): number[] =>
    Array.from(
      { length: 5 },
      (_, step) =>
        ranks.reduce((sum, rank) => sum + (rank[key]?.[kind][step] ?? NaN), 0) / ranks.length,
    );

  describe.each(others)('of two ranks is gone on from by %i', (size) => {
    it.each(cases.map((each) => [keyOf(each), otherVariant(each), each.optimizer] as const))(
      '%s, under %s',
      (key, _, optimizer) => {
        const expected = mean(saved, key, 'uninterrupted');
        const found = mean(loaded.get(size) ?? [], key, 'resumed');
        found.forEach((loss, step) => {
          const difference = Math.abs(loss - (expected[step] ?? NaN)) / (expected[step] ?? NaN);
          expect(difference, `step ${step}`).toBeLessThan(toleranceOf(optimizer));
        });
      },
    );
  });
});
