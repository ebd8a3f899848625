import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { cases, type Observations, observations } from './ranks/varying-lengths.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

describe(`sequences of 20 lengths on ${size} ranks`, () => {
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    const url = new URL('./ranks/varying-lengths.ts', import.meta.url);
    const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
    const found = await spawnRanks(size, url, { world, timeoutMs: trainingMs });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

  it.each(Object.keys(cases))(
    '%s: make at most eight plans, with the losses of exact ones',
    (name) => {
      for (const rank of ranks) {
        const { losses = [], exact = [], plans } = rank[name] ?? {};
        expect(losses).toHaveLength(20);
        losses.forEach((loss, step) => expect(loss).toBeCloseTo(exact[step] ?? NaN, 5));
        expect(plans).toBeLessThanOrEqual(8);
      }
    },
  );
});
