import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { models, strategies, texts, type Texts, textsOf } from './ranks/generation.ts';

const size = 2;
const timeoutMs = 600_000;
const alone = new Map<string, readonly Texts[]>();

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const [name, build] of Object.entries(models)) {
    const model = await build();
    alone.set(name, [await textsOf(model, 0, 0), await textsOf(model, 1, 0)]);
  }
}, timeoutMs);

const cases = Object.entries(strategies).flatMap(([name, { axis }]) =>
  Object.keys(models).map((model) => ({ name, axis, model })),
);

it.each(cases)(
  'ranks of $name generate the texts of one rank with $model and adapters',
  async ({ name, axis, model }) => {
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const data = { axes: [{ name: axis, size }], name, model };
    const url = new URL('./ranks/generation.ts', import.meta.url);
    const ranks = z
      .array(texts)
      .length(size)
      .parse(await spawnRanks(size, url, { world, data, timeoutMs }));
    for (const [rank, found] of ranks.entries()) {
      expect(found).toEqual(alone.get(model)?.[axis === 'dp' ? rank : 0]);
    }
  },
  timeoutMs,
);
