import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { testMs, trainingMs } from './time-limits.ts';

const numbers = z.array(z.number());
const counts = z.record(z.string(), z.number());
const found = z.object({
  part: numbers,
  partShape: numbers,
  whole: numbers,
  fromParts: numbers,
  refusal: z.string(),
  shardGradient: numbers,
  counts: z.object({ forward: counts, training: counts, loss: counts, shard: counts }),
});

describe('a distributed tensor on a 2 x 2 mesh', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 4 });
    const results = await spawnRanks(4, new URL('./ranks/distributed-tensor.ts', import.meta.url), {
      world,
      timeoutMs: trainingMs,
    });
    ranks = z.array(found).length(4).parse(results);
  }, testMs);

  it('has chunks of chunks of a dim over two axes: 5 rows as 2, 1 and 1, 1', () => {
    expect(ranks.map(({ partShape }) => partShape)).toEqual([
      [2, 2],
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
    expect(ranks.map(({ part }) => part)).toEqual([
      [0, 1, 2, 3],
      [4, 5],
      [6, 7],
      [8, 9],
    ]);
  });

  it('is whole again on every rank', () => {
    for (const { whole } of ranks) expect(whole).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('is made of parts in the order of the axes that are named', () => {
    for (const { fromParts } of ranks) expect(fromParts).toEqual([0, 2, 1, 3]);
  });

  it('refuses a part that is not the one of the layout, with the numbers', () => {
    expect(ranks[0]?.refusal).toContain(
      'a part of shape [2, 2] as shard(0: a·b) of a tensor of shape [9, 2]: a part of shape [3, 2] on this rank',
    );
  });

  it('runs a column and a row parallel product with one all-reduce forward, and one backward', () => {
    for (const { counts } of ranks) {
      expect(counts.forward).toEqual({ allReduce: 1 });
      expect(counts.training).toEqual({ allReduce: 2 });
    }
  });

  it('shards what all ranks have for nothing, and gathers its gradient once', () => {
    for (const { counts, shardGradient } of ranks) {
      expect(counts.shard).toEqual({ allGather: 1 });
      expect(shardGradient).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    }
  });

  it('reduces a mean over shards once, after the sum', () => {
    for (const { counts } of ranks) expect(counts.loss).toEqual({ allReduce: 1 });
  });
});
