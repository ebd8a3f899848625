import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { decoderCases, expectClose } from './decoder-cases.ts';
import { lossesSchema, strategies } from './ranks/balance-loss.ts';

const RANKS = 2;
const timeoutMs = 120_000;
let ranks: readonly z.infer<typeof lossesSchema>[] = [];

beforeAll(async () => {
  const world = createThreadsWorld({ size: RANKS });
  const url = new URL('./ranks/balance-loss.ts', import.meta.url);
  const found = await spawnRanks(RANKS, url, { world, data: null, timeoutMs });
  ranks = z.array(lossesSchema).length(RANKS).parse(found);
}, timeoutMs);

describe("The balance loss of Mixtral's layers is that of transformers:", () => {
  const golden = decoderCases.find(({ name }) => name === 'Mixtral with a balance loss');

  it.each(Object.keys(strategies))('two ranks of %s train by it', (name) => {
    for (const rank of ranks) expectClose(rank[name] ?? expect.fail(name), golden?.losses);
  });
});
