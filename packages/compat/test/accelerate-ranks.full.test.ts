import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { trainOnRank } from './accelerate-ranks.ts';

let ranks: readonly Awaited<ReturnType<typeof trainOnRank>>[];

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'compat-'));
  ranks = await onRanks(2, (rank) => trainOnRank(rank, folder), onCpu);
}, 240_000);

describe('an Accelerator on two ranks', () => {
  it.each(['no', 'bf16', 'fp16'])(
    'trains in %s with the bits of the library’s own words',
    (name) => {
      for (const { losses } of ranks) {
        expect(losses[name]?.found).toHaveLength(4);
        expect(losses[name]?.found).toEqual(losses[name]?.words);
      }
    },
  );

  it('trains with another strategy', () => {
    for (const { losses } of ranks) {
      const { found = [], words = [] } = losses['ZeRO-3'] ?? {};
      for (const [index, loss] of words.entries()) expect(found[index]).toBeCloseTo(loss, 5);
    }
  });

  it('updates after the last batch of the data, too', () => {
    for (const { updates } of ranks) expect(updates).toBe(2);
  });

  it('advances the schedule by a step for each rank', () => {
    // The learning rate after passes 1 to 4: that of step 0, until the update of pass 3 makes it that of step 2.
    for (const { rates } of ranks) {
      expect(rates).toEqual([0.1, 0.1, 0.1 / 3, 0.1 / 5].map((rate) => expect.closeTo(rate, 12)));
    }
  });

  it('gathers each row of the dataset once, in its order', () => {
    for (const { gathered } of ranks) {
      expect(gathered).toEqual(Array.from({ length: 22 }, (_, row) => row));
    }
  });

  it('continues in the middle of an epoch with the losses of an uninterrupted run', () => {
    for (const { continued } of ranks) {
      expect(continued.found).toHaveLength(2);
      expect(continued.found).toEqual(continued.expected);
    }
  });
});
