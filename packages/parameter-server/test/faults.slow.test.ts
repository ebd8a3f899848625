import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { expect, it } from 'vitest';
import { oneElementWorker, ServerCluster } from './server-cluster.ts';

/** Yields numbers from 0 to 1. They are the same in each run. */
function* randoms(seed: number): Generator<number, never> {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

it.each([1, 2, 3])(
  '20 kills of servers at random times lose nothing that was acknowledged (seed %i)',
  async (seed) => {
    setRank({ device: await cpu() });
    const random = randoms(seed);
    const cluster = new ServerCluster(3, true);
    for (let server = 0; server < 3; server++) await cluster.start(server);
    const job = { workers: 2, consistency: { kind: 'bounded', staleness: null } as const };
    const ranges = [0, 1, 2].map((shard) =>
      [0, 1].map((worker) => oneElementWorker(cluster.servers, shard, worker, job)),
    );
    for (const range of ranges) for (const { begin } of range) await begin();
    const over = new AbortController();
    const acknowledged = [0, 0, 0];
    const work = ranges.flatMap((range, shard) =>
      range.map(async ({ push }) => {
        while (!over.signal.aborted) {
          await push(1);
          acknowledged[shard] = (acknowledged[shard] ?? 0) + 1;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      }),
    );
    for (let kill = 0; kill < 20; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 50 * random.next().value));
      const server = Math.floor(3 * random.next().value);
      cluster.kill(server);
      await new Promise((resolve) => setTimeout(resolve, 100 * random.next().value));
      await cluster.start(server, true);
      // A server without a copy tries again every 200 ms.
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    over.abort();
    await Promise.all(work);
    for (const [shard, range] of ranges.entries()) {
      const sum = await range[0]?.push(0);
      expect(sum).toBe(-(acknowledged[shard] ?? 0));
      expect(acknowledged[shard]).toBeGreaterThan(50);
    }
  },
  120_000,
);
