import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { half, observations, trainingNames } from './ranks/resumed-states.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

describe('a training that goes on from a checkpoint of all its states', () => {
  let directory = '';
  let ranks: readonly z.infer<typeof observations>[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-states-'));
    const found = await spawnRanks(size, new URL('./ranks/resumed-states.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
      data: directory,
      timeoutMs: trainingMs,
    });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each(trainingNames)('has the losses of the uninterrupted one, bit for bit: %s', (name) => {
    for (const rank of ranks) {
      const { uninterrupted, resumed } = rank[name] ?? {};
      expect(uninterrupted).toHaveLength(2 * half);
      expect(resumed).toEqual(uninterrupted);
    }
  });

  it.each(trainingNames)('would have others without these states: %s', (name) => {
    for (const rank of ranks) {
      const { uninterrupted = [], forgotten } = rank[name] ?? {};
      expect(forgotten).not.toEqual(uninterrupted.slice(half));
    }
  });
});
