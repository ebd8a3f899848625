import { readFileSync } from 'node:fs';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Outcomes, outcomes } from './ranks/metrics.ts';

const golden = z
  .array(
    z.object({
      labels: z.array(z.number()),
      accuracy: z.number(),
      f1: z.record(z.string(), z.number()),
      area: z.number().optional(),
    }),
  )
  .parse(JSON.parse(readFileSync(new URL('golden/metrics.json', import.meta.url), 'utf8')));

/** What the metrics of the golden file are, computed of all rows at once. */
const wanted = golden.flatMap(({ labels, accuracy, f1, area }, index) => {
  const rows = labels.map((_, row) => ({ loss: row / 64, weight: row % 3 }));
  const weight = rows.reduce((sum, row) => sum + row.weight, 0);
  const mean = rows.reduce((sum, row) => sum + row.loss * row.weight, 0) / weight;
  return [
    [`accuracy ${index}`, accuracy],
    ...Object.entries(f1).map(([average, score]) => [`${average} ${index}`, score] as const),
    ...(area === undefined ? [] : [[`area ${index}`, area] as const]),
    [`mean ${index}`, mean],
    [`perplexity ${index}`, Math.exp(mean)],
  ] as const;
});

// 101 rows on 3 ranks: one row is repeated.
describe.each([1, 3])('metrics on %i ranks', (size) => {
  let ranks: readonly Outcomes[] = [];
  beforeAll(async () => {
    const found = await spawnRanks(size, new URL('./ranks/metrics.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
      timeoutMs: 60_000,
    });
    ranks = z.array(outcomes).length(size).parse(found);
  });

  it.each(wanted)('have the value that scikit-learn or the closed form has: %s', (name, value) => {
    for (const { values } of ranks) {
      expect(values[name]).toHaveLength(2);
      for (const epoch of values[name] ?? []) expect(epoch).toBeCloseTo(value, 12);
    }
  });

  it('have an F1 of 0, which is a number, if no row has a label', () => {
    for (const { values } of ranks) {
      for (const average of ['macro', 'micro', 'binary']) {
        expect(values[`${average} without labels`]).toEqual([0]);
      }
    }
  });

  it('have the same bits on every rank', () => {
    for (const { values } of ranks) expect(values).toEqual(ranks[0]?.values);
  });

  it('throw on every rank if one has not had all rows', () => {
    const name = 'rank 0 leaves a batch out';
    expect(ranks[0]?.errors[name]).toMatch(/ConfigError.* 0 rows, on rank 0/);
    for (const { errors } of ranks.slice(1))
      expect(errors[name]).toMatch(/CollectiveError.* rank 0 has not/);
  });

  it('count batches in the order in which they are given, also several at once', () => {
    for (const { errors } of ranks) {
      expect(errors['updates under way at once']).toBe('Error: the mean of 10 by 5');
    }
  });

  it('refuse what would count rows wrongly', () => {
    for (const { errors } of ranks) {
      expect(errors['no reset']).toMatch(/ConfigError.*Call reset\(\)/);
      expect(errors['one loss of a batch']).toMatch(/ShapeError.*one value for the whole batch/);
      if (size > 1) expect(errors['dropLast']).toMatch(/ConfigError.*dropLast/);
      expect(errors['a class too many']).toMatch(/DataError.*the class 2/);
      expect(errors['one class only']).toMatch(/DataError.* of class 1 and 0 of class 0/);
    }
  });
});
