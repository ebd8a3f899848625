import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { found } from './ranks/draws-by-batch.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** Returns how many of the lists differ from each other. */
function kinds(lists: readonly unknown[]): number {
  return new Set(lists.map((list) => JSON.stringify(list))).size;
}

describe('four ranks with the same seed', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 4 });
    const results = await runRanks(4, new URL('./ranks/draws-by-batch.ts', import.meta.url), {
      world,
      timeoutMs: trainingMs,
    });
    ranks = z.array(found).length(4).parse(results);
  }, testMs);

  const drawsOf = (name: string) =>
    ranks.map(({ byStrategy }) => {
      const { [name]: own } = byStrategy;
      if (own === undefined) throw new RangeError(name);
      return own;
    });

  it.each(['ddp', 'zero', 'fsdp', 'hybrid sharding'])(
    'drop other elements of each part of the batch, and draw other noise, with %s',
    (name) => {
      const draws = drawsOf(name);
      expect(kinds(draws.map(({ whole }) => whole))).toBe(4);
      expect(kinds(draws.map(({ parts }) => parts))).toBe(4);
      expect(kinds(draws.map(({ noise }) => noise))).toBe(4);
      for (const { whole, noise } of draws) {
        const kept = whole.filter((value) => value === 2).length;
        expect(whole.filter((value) => value === 0)).toHaveLength(64 - kept);
        expect(kept).toBeGreaterThan(16);
        expect(kept).toBeLessThan(48);
        expect(new Set(noise).size).toBe(64);
      }
    },
  );

  it('four ranks with the same seed draw the same numbers for a part of the batch, however ranks are arranged in axes', () => {
    expect(drawsOf('hybrid sharding').map(({ whole }) => whole)).toEqual(
      drawsOf('fsdp').map(({ whole }) => whole),
    );
  });

  it('four ranks with the same seed draw the same for what ranks of tensor parallelism share, and not for other rows or parts', () => {
    const [a, b, c, d] = drawsOf('tensor and data parallel');
    expect(a?.whole).toEqual(b?.whole);
    expect(c?.whole).toEqual(d?.whole);
    expect(a?.noise).toEqual(b?.noise);
    expect(c?.noise).toEqual(d?.noise);
    expect(a?.whole).not.toEqual(c?.whole);
    expect(a?.noise).not.toEqual(c?.noise);
    expect(kinds([a, b, c, d].map((own) => own?.parts))).toBe(4);
  });

  it.each(['shared', 'tensorParallel', 'an axis of one rank'])(
    'draw what one rank draws if they share draws, or have one batch: %s',
    (name) => {
      drawsOf(name).forEach((own, rank) => expect(own).toEqual(ranks[rank]?.alone));
      expect(kinds(drawsOf(name))).toBe(1);
    },
  );

  it('four ranks with the same seed have the default generator in the same state after a pass, for initial values', () => {
    expect(kinds(drawsOf('ddp').map(({ after }) => after))).toBe(1);
  });

  it('four ranks with the same seed draw the same in calls of the module, in noSync and without gradients, and from a saved state', () => {
    for (const { again, byStrategy } of ranks) {
      for (const call of ['module', 'noSync', 'noGrad']) {
        expect(again[call], call).toEqual(byStrategy['ddp']?.whole);
      }
      expect(again['resumed']).toEqual(again['saved']);
      expect(again['saved']).not.toEqual(again['module']);
      expect(new Set(again['evaluated'])).toEqual(new Set([1]));
    }
  });

  it('four ranks with the same seed draw what one rank draws outside of the passes of a parallel model, and after detach()', () => {
    for (const { again, alone } of ranks) {
      expect(again['outside']).toEqual(alone.whole);
      expect(again['detached']).toEqual(alone.whole);
    }
  });

  it('four ranks with the same seed draw the same again where the backward pass computes a part of the forward pass again', () => {
    for (const { recomputed } of ranks) {
      expect(recomputed).toHaveLength(2);
      for (const { output, gradient } of recomputed) expect(gradient).toEqual(output);
    }
    expect(kinds(ranks.map(({ recomputed }) => recomputed[0]?.output))).toBe(2);
  });

  it('four ranks with the same seed draw different numbers in the loss of a pipeline for each of its batches', () => {
    const [a, b, c, d] = ranks.map(({ loss }) => loss);
    expect(a).toBe(b);
    expect(c).toBe(d);
    expect(a).not.toBe(c);
  });
});
