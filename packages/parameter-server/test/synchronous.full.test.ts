import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { startRequestServer } from '@shardwise/collectives/node';
import { setRank } from '@shardwise/core';
import { createParameterServer } from '@shardwise/parameter-server';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { optimizers } from './direct-servers.ts';

const secret = 'a secret of the test';
const results = z.array(z.record(z.string(), z.array(z.array(z.number()))));

describe('three workers and two servers, synchronous', () => {
  let ranks: z.infer<typeof results> = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    const started = await Promise.all(
      ['SGD', 'SGD', 'AdamW', 'AdamW'].map(async (name, index) => {
        const server = await createParameterServer({ server: index % 2, optimizers });
        const listener = await startRequestServer({ secret, handler: server.handler });
        return { name, server, listener };
      }),
    );
    const addresses = Map.groupBy(started, ({ name }) => name);
    const servers = Object.fromEntries(
      [...addresses].map(([name, list]) => [
        name,
        list.map(({ listener: { host, port } }) => ({ host, port })),
      ]),
    );
    const world = createThreadsWorld({ size: 3, arenaBytes: 16 << 20 });
    const moduleUrl = new URL('./ranks/synchronous.ts', import.meta.url);
    try {
      const data = { secret, servers };
      ranks = results.parse(await spawnRanks(3, moduleUrl, { world, data }));
    } finally {
      for (const { server, listener } of started) {
        listener.close();
        await server.close();
      }
    }
  });

  it.each(['SGD', 'AdamW'])('train by %s to the bits of DDP', (name) => {
    for (const rank of ranks) {
      expect(rank[`servers ${name}`]).toHaveLength(4);
      expect(rank[`servers ${name}`]).toEqual(ranks[0]?.[`ddp ${name}`]);
    }
  });
});
