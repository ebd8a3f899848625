import { readFileSync } from 'node:fs';
import { data, fromArray } from '@shardwise/core';
import { Accuracy, F1Score, MeanMetric, Perplexity, RocAuc } from '@shardwise/data';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const golden = z
  .array(
    z.object({
      scores: z.array(z.array(z.number())),
      labels: z.array(z.number()),
      accuracy: z.number(),
      f1: z.record(z.string(), z.number()),
      area: z.number().optional(),
    }),
  )
  .parse(JSON.parse(readFileSync(new URL('golden/metrics.json', import.meta.url), 'utf8')));

/** The values of this rank, and what faulty uses throw on it. */
interface Outcomes {
  values: Record<string, number[]>;
  errors: Record<string, string>;
}

/** Evaluates the predictions of the golden file on the ranks of `dp`, in batches of 7. */
async function evaluate({ rank, size }: RankInThread): Promise<Outcomes> {
  const values: Record<string, number[]> = {};
  const add = (name: string, value: number): void => void (values[name] ??= []).push(value);

  for (const [index, { scores, labels }] of golden.entries()) {
    const classes = scores[0]?.length ?? 0;
    const sampler = new data.DistributedSampler({
      dataset: labels.length,
      numReplicas: size,
      rank,
    });
    const [accuracy, area] = [new Accuracy({ sampler }), new RocAuc({ sampler })];
    const [mean, perplexity] = [new MeanMetric({ sampler }), new Perplexity({ sampler })];
    const averages = ['macro', 'micro', ...(classes === 2 ? (['binary'] as const) : [])] as const;
    const f1 = averages.map((average) => new F1Score({ sampler, classes, average }));
    for (const epoch of [0, 1]) {
      sampler.setEpoch(epoch);
      for (const rows of new data.BatchSampler(sampler, 7)) {
        const batchLabels = data.ndArray(Int32Array.from(rows, (row) => labels[row] ?? 0));
        const batch = data.ndArray(Float32Array.from(rows.flatMap((row) => scores[row] ?? [])), [
          rows.length,
          classes,
        ]);
        const tensor = fromArray(batch);
        const second = data.ndArray(Float32Array.from(rows, (row) => scores[row]?.[1] ?? 0));
        await accuracy.update(tensor, batchLabels);
        for (const each of f1) await each.update(batch, fromArray(batchLabels));
        if (classes === 2) await area.update(second, batchLabels);
        const weights = data.ndArray(Float32Array.from(rows, (row) => row % 3));
        const losses = data.ndArray(Float32Array.from(rows, (row) => row / 64));
        await mean.update(losses, weights);
        await perplexity.update(fromArray(losses), weights);
      }
      add(`accuracy ${index}`, await accuracy.compute());
      for (const [i, each] of f1.entries()) add(`${averages[i]} ${index}`, await each.compute());
      if (classes === 2) add(`area ${index}`, await area.compute());
      add(`mean ${index}`, await mean.compute());
      add(`perplexity ${index}`, await perplexity.compute());
      for (const each of [accuracy, mean, perplexity, area, ...f1]) each.reset();
    }
  }
  for (const average of ['macro', 'micro', 'binary'] as const) {
    const metric = new F1Score({ classes: 2, average });
    await metric.update(data.ndArray(Int32Array.of(0, 1)), data.ndArray(Int32Array.of(-100, -100)));
    add(`${average} without labels`, await metric.compute());
  }
  return { values, errors: await errorsOf(rank, size) };
}

/** What metrics of five items throw on this rank if they are used in a wrong way. */
async function errorsOf(rank: number, size: number): Promise<Record<string, string>> {
  const sampler = new data.DistributedSampler({ dataset: 5, numReplicas: size, rank });
  const ones = (rows: number): data.NDArray => data.ndArray(new Float32Array(rows).fill(1));
  const errors: Record<string, string> = {};
  const attempt = async (name: string, call: () => unknown): Promise<void> => {
    try {
      await call();
    } catch (error) {
      errors[name] = String(error);
    }
  };
  await attempt('updates under way at once', async () => {
    // The first batch is read later than the others, of which the last may be a repeat.
    const mean = new MeanMetric({ sampler });
    const items = [...sampler].map((item) => data.ndArray(Float32Array.of(item)));
    const slow = items.map((item, i) => (i === 0 ? fromArray(item).add(0) : item));
    await Promise.all(slow.map((item) => mean.update(item)));
    throw new Error(`the mean of ${(await mean.compute()) * 5} by 5`);
  });
  await attempt('rank 0 leaves a batch out', async () => {
    const mean = new MeanMetric({ sampler });
    if (rank > 0) await mean.update(ones(sampler.length));
    await mean.compute();
  });
  await attempt('no reset', async () => {
    const mean = new MeanMetric({ sampler });
    await mean.update(ones(sampler.length));
    await mean.update(ones(1));
  });
  await attempt('one loss of a batch', async () => {
    await new MeanMetric({ sampler }).update(data.ndArray(Float32Array.of(1), []));
  });
  await attempt('dropLast', () => {
    const dropping = new data.DistributedSampler({
      dataset: 5,
      numReplicas: size,
      rank,
      dropLast: true,
    });
    return new Accuracy({ sampler: dropping });
  });
  await attempt('a class too many', async () => {
    await new F1Score({ classes: 2 }).update(
      data.ndArray(Int32Array.of(0)),
      data.ndArray(Int32Array.of(2)),
    );
  });
  await attempt('one class only', async () => {
    const area = new RocAuc();
    await area.update(ones(2), ones(2));
    await area.compute();
  });
  return errors;
}

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
    ranks = await onRanks(size, evaluate);
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
