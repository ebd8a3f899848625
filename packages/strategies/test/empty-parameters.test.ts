import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { observations, strategies } from './ranks/empty-parameters.ts';

const size = 2;

describe('a model with parameters that have no elements', () => {
  let directory = '';
  let ranks: readonly z.infer<typeof observations>[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-empty-'));
    const found = await runRanks(size, new URL('./ranks/empty-parameters.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 8 * 1024 * 1024 }),
      data: directory,
    });
    ranks = z.array(observations).length(size).parse(found);
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each(Object.keys(strategies))('trains, is saved and is loaded as one without: %s', (name) => {
    for (const rank of ranks) {
      expect(rank[name]?.without).toHaveLength(6);
      expect(rank[name]?.losses).toEqual(rank[name]?.without);
    }
  });
});
