import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Outcomes, outcomes } from './ranks/gather-for-metrics.ts';
import { testMs, trainingMs } from './time-limits.ts';

async function ranksOf(size: number): Promise<readonly Outcomes[]> {
  const found = await spawnRanks(size, new URL('./ranks/gather-for-metrics.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
    timeoutMs: trainingMs,
  });
  return z.array(outcomes).length(size).parse(found);
}

const mismatch = (what: string): readonly string[] => {
  const text = `CollectiveMismatchError: ${what}`;
  return [text, text];
};
const gathers = "to gather values for metrics over 'dp'";

/** What each rank of two throws. */
const thrown: Readonly<Record<string, readonly string[]>> = {
  'one rank gives a batch too few': [
    `CollectiveError: ${gathers}: rank 1 could not give its values: "to gather x of the 3 items that the sampler has for this rank: 2 rows`,
    'ShapeError: to gather x of the 3 items that the sampler has for this rank: 2 rows. Gather once after the last batch',
  ],
  'one rank gives something else': [
    `CollectiveError: ${gathers}: rank 1 could not give its values`,
    'ConfigError: to gather x for metrics: a Tensor where a list of tensors is expected',
  ],
  'one rank has other columns': mismatch(`${gathers}: rank 1 has {"names":["x"]`),
  'one rank has another name': mismatch(`${gathers}: rank 1 has {"names":["x1"]`),
  'one rank is in another epoch': mismatch(`${gathers}: rank 1 has {"names":["x"],"epoch":1`),
  'one rank has another order': mismatch(`${gathers}: rank 1 has {"names":["x"]`),
  'the sampler leaves items out': [0, 1].map(
    () =>
      'ConfigError: to gather values of 7 items for metrics: a sampler with dropLast, whose 2 ranks have 3 items',
  ),
  'the sampler is that of a rank of another group': [0, 1].map(
    (rank) =>
      `ConfigError: to gather values for metrics by the sampler of rank ${rank} of 3: rank ${rank} of 2`,
  ),
  'one rank calls another collective': mismatch('Call #'),
};

describe.each([1, 2, 3, 4])('gatherForMetrics on %d ranks', { timeout: testMs }, (size) => {
  const ranks = ranksOf(size);

  it('gives exactly the dataset in its order, with repeats, without, and on ranks without a batch', async () => {
    for (const { wrong, cases } of await ranks) {
      expect(wrong).toEqual([]);
      expect(cases).toBe(21 * 4 * 2 * 2);
    }
  });

  it('gives the outputs of a model that ranks shard', async () => {
    for (const { outputs, alone } of await ranks) {
      expect(outputs).toHaveLength(21);
      outputs.forEach((value, index) => expect(value).toBeCloseTo(alone[index] ?? NaN, 5));
    }
  });

  it.runIf(size === 2)('throws on all ranks where one differs', async () => {
    const found = (await ranks).map(({ errors }) => errors);
    expect(found.map((errors) => Object.keys(errors))).toEqual(
      found.map(() => Object.keys(thrown)),
    );
    for (const [name, texts] of Object.entries(thrown)) {
      texts.forEach((text, rank) => expect(found[rank]?.[name]).toContain(text));
    }
  });
});
