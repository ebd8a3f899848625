import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { alone, type Outcome, outcome, type Whole } from './ranks/grid-layers.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 4;
const tolerance = { rtol: 1e-5, atol: 1e-6 };

describe('layers on a 2 × 2 grid, of a batch with padding and targets that do not count', () => {
  let expected: Whole = { loss: NaN, gradient: [], values: [] };
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    setRank({ device: await cpu() });
    expected = await alone();
    const found = await runRanks(size, new URL('./ranks/grid-layers.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(outcome).length(size).parse(found);
  }, testMs);

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the values of the first rank, though each rank has drawn others', () => {
    expect(expected.values).not.toHaveLength(0);
    for (const { values } of ranks) expect(values).toEqual(expected.values);
  });

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the mean loss of the targets that count, on every rank', () => {
    for (const { loss } of ranks) {
      expect(describeDifference([loss], [expected.loss], tolerance)).toBeUndefined();
      expect(loss).toBe(ranks[0]?.loss);
    }
  });

  it('layers on a 2 × 2 grid, of a batch with padding and targets that do not count have the gradients of one rank, and none for the row of padding', () => {
    expect(expected.gradient).toContain(0);
    for (const { gradient } of ranks) {
      expect(describeDifference(gradient, expected.gradient, tolerance)).toBeUndefined();
    }
  });

  it('drop other weights of attention on each rank while they train, and none in an evaluation', () => {
    // Ranks of one column have the same features, here of equal sequences.
    for (const [first, second] of [
      [0, 2],
      [1, 3],
    ] as const) {
      expect(ranks[first]?.kept).toEqual(ranks[second]?.kept);
      expect(ranks[first]?.dropped).not.toEqual(ranks[second]?.dropped);
    }
    for (const { dropped, kept } of ranks) expect(dropped).not.toEqual(kept);
  });
});
