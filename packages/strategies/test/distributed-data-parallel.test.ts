import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { trainAlone, trained, trainingNames, type Trained } from './ranks/trainings.ts';

/** The relative tolerance of each tensor, because sums in another order are rounded differently. */
const TOLERANCE = 1e-5;

const alone: Record<string, Trained> = {};

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const name of trainingNames) alone[name] = await trainAlone(name);
});

describe.each([1, 2, 3, 4])('DistributedDataParallel on %i ranks', (size) => {
  let ranks: readonly Record<string, Trained>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const results = await runRanks(size, new URL('./ranks/train-rank.ts', import.meta.url), {
      world,
    });
    ranks = z.array(z.record(z.string(), trained)).parse(results);
  });

  describe.each(trainingNames)('%s', (name) => {
    const each = (): readonly Trained[] => ranks.flatMap((rank) => rank[name] ?? []);

    it("has the losses of one rank that sees all ranks' items", () => {
      const expected = alone[name]?.losses ?? [];
      const mean = expected.map(
        (_, step) =>
          each().reduce((sum, { losses }) => sum + (losses[step] ?? Number.NaN), 0) / size,
      );
      expect(mean).toHaveLength(3);
      expect(difference(mean, expected)).toBeLessThan(TOLERANCE);
    });

    it('has its parameters', () => {
      const expected = alone[name]?.parameters ?? {};
      for (const { parameters } of each()) {
        expect(Object.keys(parameters)).toEqual(Object.keys(expected));
        for (const [key, values] of Object.entries(expected))
          expect(difference(parameters[key] ?? [], values), key).toBeLessThan(TOLERANCE);
      }
    });

    it('leaves the same bits on all ranks after every step', () => {
      const [first, ...others] = each().map(({ hashes }) => hashes);
      expect(new Set(first).size).toBe(3);
      for (const hashes of others) expect(hashes).toEqual(first);
    });
  });
});

/** Returns the largest difference, relative to the largest magnitude. */
function difference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let most = actual.length === expected.length ? 0 : Number.NaN;
  let scale = 0;
  for (let index = 0; index < expected.length; index++) {
    most = Math.max(
      most,
      Math.abs((actual[index] ?? Number.NaN) - (expected[index] ?? Number.NaN)),
    );
    scale = Math.max(scale, Math.abs(expected[index] ?? 0));
  }
  return most / Math.max(scale, Number.MIN_VALUE);
}
