import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
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
  counts: z.object({
    forward: counts,
    training: counts,
    unread: counts,
    loss: counts,
    shard: counts,
  }),
  unsaid: z.object({
    refusals: z.record(z.string(), z.array(z.string())),
    mean: z.number(),
    gradient: numbers,
    messages: numbers,
  }),
});

describe('a distributed tensor on a 2 x 2 mesh', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 4 });
    const results = await runRanks(4, new URL('./ranks/distributed-tensor.ts', import.meta.url), {
      world,
      timeoutMs: trainingMs,
    });
    ranks = z.array(found).length(4).parse(results);
  }, testMs);

  it('a distributed tensor on a 2 x 2 mesh has chunks of chunks of a dim over two axes: 5 rows as 2, 1 and 1, 1', () => {
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

  it('a distributed tensor on a 2 x 2 mesh is whole again on every rank', () => {
    for (const { whole } of ranks) expect(whole).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('a distributed tensor on a 2 x 2 mesh is made of parts in the order of the axes that are named', () => {
    for (const { fromParts } of ranks) expect(fromParts).toEqual([0, 2, 1, 3]);
  });

  it('a distributed tensor on a 2 x 2 mesh refuses a part that is not the one of the layout, with the numbers', () => {
    expect(ranks[0]?.refusal).toContain(
      'a part of shape [2, 2] as shard(0: a·b) of a tensor of shape [9, 2]: a part of shape [3, 2] on this rank',
    );
  });

  it('a distributed tensor on a 2 x 2 mesh is refused on every rank if parts without the shape of the whole differ, with ranks and shapes', () => {
    const parts = {
      rows: ['f32 [2, 3]', 'a part f32 [1, 3]'],
      columns: ['f32 [2, 3]', 'a part f32 [2, 4]'],
      dtypes: ['f32 [2, 3]', 'a part i32 [2, 3]'],
      layouts: ['f32 [2, 3]', 'another layout, and a part f32 [2, 3]'],
      copies: ['f32 [2, 3]', 'a part f32 [1, 3]'],
    };
    for (const { unsaid } of ranks) {
      for (const [what, [first, other]] of Object.entries(parts)) {
        const said = unsaid.refusals[what] ?? [];
        expect(said, what).toHaveLength(2);
        for (const text of said) {
          expect(text).toMatch(
            /^COLLECTIVE_MISMATCH: fromLocal at .*ranks\/distributed-tensor.ts:/,
          );
          expect(text).toContain(
            `: rank 0 of 'a', 0 of 'b' has a part ${first}, and rank 1 of 'a', 0 of 'b' has ${other}. `,
          );
        }
      }
    }
  });

  it('a distributed tensor on a 2 x 2 mesh computes with equal parts without the shape of the whole, also gradients', () => {
    for (const { unsaid } of ranks) {
      expect(unsaid.mean).toBe(2);
      // The derivative of mean² is 2 · 2 · 1/2 for each of two elements.
      expect(unsaid.gradient).toEqual([2]);
    }
  });

  it('a distributed tensor on a 2 x 2 mesh compares parts by one message over each axis, and by none if the shape is given', () => {
    for (const { unsaid } of ranks) expect(unsaid.messages).toEqual([2, 0]);
  });

  it('a distributed tensor on a 2 x 2 mesh runs a column and a row parallel product with one all-reduce forward, and one backward', () => {
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

  it('a distributed tensor on a 2 x 2 mesh counts collectives whose results nobody reads where the program makes them', () => {
    for (const { counts } of ranks) expect(counts.unread).toEqual({ allReduce: 1 });
  });

  it('reduces a mean over shards once, after the sum', () => {
    for (const { counts } of ranks) expect(counts.loss).toEqual({ allReduce: 1 });
  });
});
