import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { hashOf } from './ranks/state-dict.ts';
import { Gpt } from './ranks/grid-table.ts';
import { layoutNames, ranksOf } from './ranks/reshard-layouts.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 4;
const names = layoutNames.filter((layout) => ranksOf(layout) === size);

describe('the state dict of a model that ranks shard', () => {
  let whole = '';
  let ranks: readonly Readonly<Record<string, string>>[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    manualSeed(0);
    whole = await hashOf(new Gpt());
    const url = new URL('./ranks/state-dict.ts', import.meta.url);
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const found = await runRanks(size, url, { world, data: names, timeoutMs: trainingMs });
    ranks = z.array(z.record(z.string(), z.string())).length(size).parse(found);
  }, testMs);

  it.each(names)('has on every rank the names, shapes and values of an uncut model: %s', (name) => {
    for (const hashes of ranks) expect(hashes[name]).toBe(whole);
  });
});
