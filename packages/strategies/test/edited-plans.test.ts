import { createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { edits, type Observations, observations } from './ranks/edited-plans.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;

describe(`a plan that was edited, on ${size} ranks`, () => {
  let ranks: readonly Observations[] = [];

  beforeAll(async () => {
    const found = await runRanks(size, new URL('./ranks/edited-plans.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
      timeoutMs: trainingMs,
    });
    ranks = z.array(observations).length(size).parse(found);
  }, testMs);

  it.each(Object.keys(edits))('trains with the same losses: %s', (name) => {
    for (const { plain, edited } of ranks) {
      const [before, after] = [plain[name]?.losses ?? [], edited[name]?.losses ?? []];
      expect(before).toHaveLength(4);
      after.forEach((loss, step) => expect(loss).toBeCloseTo(before[step] ?? NaN, 5));
    }
  });

  it.each(Object.keys(edits))(
    'communicates what it says, and something else than before: %s',
    (name) => {
      for (const { plain, edited } of ranks) {
        for (const found of [plain[name], edited[name]]) {
          expect(found?.ran.toSorted()).toEqual(found?.planned.toSorted());
        }
        expect(edited[name]?.ran).not.toEqual(plain[name]?.ran);
      }
    },
  );

  it.each<[string, RegExp]>([
    ['a parameter that nothing reduces', /no step reduces its gradient over 'dp'/],
    ['a parameter in two buckets', /two steps that reduce it/],
    [
      'a layer whose parameters are not laid out for it',
      /the plan gives it to them as invariant.*Change its layout in the plan/s,
    ],
    ['a part that nothing gathers', /to shard the module 'blocks\.9' as a unit/],
  ])('is refused before anything changes: %s', (name, says) => {
    for (const { refusals } of ranks) expect(refusals[name]?.message).toMatch(says);
  });
});
