import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { build, strategies, texts, type Texts, textsOf } from './ranks/generation.ts';

const size = 2;
const timeoutMs = 600_000;
const alone: Texts[] = [];

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (let rank = 0; rank < size; rank++) alone.push(await textsOf(await build(), rank, 0));
}, timeoutMs);

it.each(Object.entries(strategies))(
  'ranks of %s generate the texts of one rank',
  async (name, { axis }) => {
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const data = { axes: [{ name: axis, size }], name };
    const url = new URL('./ranks/generation.ts', import.meta.url);
    const ranks = z
      .array(texts)
      .length(size)
      .parse(await spawnRanks(size, url, { world, data, timeoutMs }));
    for (const [rank, found] of ranks.entries()) {
      expect(found).toEqual(alone[axis === 'dp' ? rank : 0]);
    }
  },
  timeoutMs,
);
