import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type Observations, observations } from './ranks/varying.ts';

const saving = 2;

describe('a model of which each rank has another one', () => {
  let directory = '';
  let two: readonly Observations[] = [];
  let three: readonly Observations[] = [];

  const onRanks = async (size: number): Promise<readonly Observations[]> => {
    const found = await runRanks(size, new URL('./ranks/varying.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 1024 * 1024 }),
      data: { directory, saves: size === saving },
    });
    return z.array(observations).length(size).parse(found);
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-varying-'));
    two = await onRanks(saving);
    three = await onRanks(3);
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('a model of which each rank has another one is explained as such', () => {
    for (const { explained } of two) {
      expect(explained).toMatch(/weight +f32 +\[1, 2, 1, 1\] +varying\(dp\) +varying\(dp\)/);
    }
  });

  it('a model of which each rank has another one is saved and loaded with parameters, buffers and states of each rank', () => {
    const [first, second] = two;
    expect(first?.saved).toHaveLength(8);
    expect(first?.saved).not.toEqual(second?.saved);
    for (const { model, optimizer, saved, loaded } of two) {
      expect([model, optimizer]).toEqual([null, null]);
      expect(loaded).toEqual(saved);
    }
  });

  it('a model of which each rank has another one is refused on another number of ranks, and as one model', () => {
    for (const { model, optimizer, exported } of three) {
      expect(model?.code).toBe('CHECKPOINT');
      expect(model?.message).toContain("weight (each of 2 ranks of 'dp' saved its own)");
      expect(model?.message).toContain("norm.running_mean (each of 2 ranks of 'dp' saved its own)");
      expect(optimizer?.message).toContain(
        "weight.exp_avg (each of 2 ranks of 'dp' saved its own)",
      );
      expect(exported?.message).toMatch(
        /weight: each of 2 ranks of 'dp' saved its own\. Average the parameters/,
      );
    }
  });

  it('a model of which each rank has another one is not saved as if the ranks had the same, nor are its states', () => {
    for (const { unsaid, unsaidStates } of two) {
      expect(unsaid?.code).toBe('CHECKPOINT');
      expect(unsaid?.message).toMatch(
        /ranks that are to have the same values have others, as ranks 0 and 1, of weight, .*exp_avg.*tensor\.markVarying/,
      );
      expect(unsaidStates?.message).toMatch(/of weight\.exp_avg, weight\.exp_avg_sq/);
    }
  });
});
