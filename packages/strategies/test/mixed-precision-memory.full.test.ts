import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { elements, layers, measurements } from './ranks/mixed-precision-memory.ts';
import { testMs, trainingMs } from './time-limits.ts';

/** The bytes of states by the 2/2/12 split of Rajbhandari et al. 2020: parameters, gradients, optimizer. */
const formulas: Readonly<Record<string, (ranks: number) => number>> = {
  DDP: () => (2 + 2 + 12) * elements,
  'ZeRO-1': (ranks) => (2 + 2 + 12 / ranks) * elements,
  'ZeRO-2': (ranks) => (2 + (2 + 12) / ranks) * elements,
  'ZeRO-3': (ranks) => (16 / ranks) * elements,
  FSDP: (ranks) => (16 / ranks) * elements,
};

/**
 * The volume that a step sends for gradients and parameters, in multiples of all parameters, by Section 7 of the paper.
 */
const sent: Readonly<Record<string, number>> = {
  DDP: 1,
  'ZeRO-1': 2,
  'ZeRO-2': 2,
  'ZeRO-3': 3,
  FSDP: 3,
};

describe.each([2, 4])('on %i ranks', (size) => {
  let ranks: readonly z.infer<typeof measurements>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 });
    const url = new URL('./ranks/mixed-precision-memory.ts', import.meta.url);
    ranks = z
      .array(measurements)
      .parse(await spawnRanks(size, url, { world, timeoutMs: trainingMs }));
  }, testMs);

  it.each(Object.entries(formulas))('%s keeps what the formula says', (name, bytesOf) => {
    const expected = bytesOf(size);
    expect(ranks).toHaveLength(size);
    for (const rank of ranks) {
      expect(Math.abs((rank[name]?.statesBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });

  it.each(Object.entries(sent))('%s sends two bytes for each element', (name, times) => {
    // Backward of the first layer needs no parameters, because nothing asks for the gradient of its input.
    const collected = times === 3 ? 3 - 1 / layers : times;
    for (const rank of ranks) {
      expect(rank[name]?.planBytes).toBe(times * 2 * elements);
      const expected = collected * 2 * elements;
      expect(Math.abs((rank[name]?.stepBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });
});
