import { data, fromArray, Generator } from '@shardwise/core';
import { Accuracy, F1Score, MeanMetric, Perplexity, RocAuc } from '@shardwise/data';
import { gatherForMetrics } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from './join.ts';

/** The number of random cases. */
export const CASES = 40;

/** A row of a data set: scores of classes, the right class or -100, and the loss of some tokens. */
export interface Item {
  readonly scores: readonly number[];
  readonly label: number;
  readonly loss: number;
  readonly tokens: number;
}

interface MetricCase {
  readonly items: readonly Item[];
  readonly classes: number;
  readonly batchSize: number;
  readonly epoch: number;
  readonly sampler: { readonly seed: number; readonly shuffle: boolean; readonly repeats: boolean };
}

/**
 * A random case. Scores have five values, so that many are equal. All numbers are multiples of 1/64, so that sums are
 * exact in any order. At least one label counts.
 */
export function caseOf(seed: number): MetricCase {
  const generator = new Generator(seed);
  const draw = (low: number, high: number): number => generator.randint(low, high, 1)[0] ?? low;
  const classes = draw(2, 5);
  const items = Array.from({ length: draw(1, 41) }, (_, index) => ({
    scores: Array.from({ length: classes }, () => draw(0, 5) / 4),
    label: index > 0 && draw(0, 8) === 0 ? -100 : draw(0, classes),
    loss: draw(0, 256) / 64,
    tokens: draw(index === 0 ? 1 : 0, 10),
  }));
  const sampler = { seed: draw(0, 100), shuffle: draw(0, 2) === 1, repeats: draw(0, 2) === 1 };
  return { items, classes, batchSize: draw(1, 10), epoch: draw(0, 3), sampler };
}

/** What the ranks have found in a case. Null: the metric has thrown DataError. */
export const metricValues = z.object({
  loss: z.number(),
  perplexity: z.number(),
  accuracy: z.number(),
  macro: z.number(),
  micro: z.number(),
  binary: z.number().optional(),
  area: z.number().nullable().optional(),
  /** Scores of all items, row by row, and their labels. */
  gathered: z.object({ scores: z.array(z.number()), labels: z.array(z.number()) }),
});
export type MetricValues = z.infer<typeof metricValues>;

/** Evaluates all cases on the ranks of `dp`. */
export async function main(context: RankContext): Promise<readonly MetricValues[]> {
  const { group } = await join(context, 'interpreter');
  const found: MetricValues[] = [];
  for (let seed = 0; seed < CASES; seed++) found.push(await evaluate(caseOf(seed), group));
  return found;
}

async function evaluate(
  { items, classes, batchSize, epoch, sampler: order }: MetricCase,
  { rank, size }: { readonly rank: number; readonly size: number },
): Promise<MetricValues> {
  const sampler = new data.DistributedSampler({
    dataset: items.length,
    numReplicas: size,
    rank,
    ...order,
  });
  sampler.setEpoch(epoch);
  const [loss, perplexity] = [new MeanMetric({ sampler }), new Perplexity({ sampler })];
  const [accuracy, area] = [new Accuracy({ sampler }), new RocAuc({ sampler })];
  const macro = new F1Score({ sampler, classes, average: 'macro' });
  const micro = new F1Score({ sampler, classes, average: 'micro' });
  const binary = classes === 2 ? new F1Score({ sampler, classes, average: 'binary' }) : null;
  const scoreBatches = [];
  const labelBatches = [];
  for (const indices of new data.BatchSampler(sampler, batchSize)) {
    const rows = indices.flatMap((index) => items[index] ?? []);
    const scores = fromArray(
      data.ndArray(Float32Array.from(rows.flatMap((row) => row.scores)), [rows.length, classes]),
    );
    const labels = data.ndArray(Int32Array.from(rows, ({ label }) => label));
    const losses = data.ndArray(Float32Array.from(rows, (row) => row.loss));
    const tokens = data.ndArray(Float32Array.from(rows, (row) => row.tokens));
    await loss.update(losses, tokens);
    await perplexity.update(losses, tokens);
    for (const metric of [accuracy, macro, micro]) await metric.update(scores, labels);
    await binary?.update(scores, labels);
    const second = data.ndArray(Float32Array.from(rows, (row) => row.scores[1] ?? NaN));
    if (binary !== null) await area.update(second, labels);
    scoreBatches.push(scores);
    labelBatches.push(fromArray(labels));
  }
  const gathered = await gatherForMetrics(
    { scores: scoreBatches, labels: labelBatches },
    { sampler },
  );
  return {
    loss: await loss.compute(),
    perplexity: await perplexity.compute(),
    accuracy: await accuracy.compute(),
    macro: await macro.compute(),
    micro: await micro.compute(),
    ...(binary === null ? {} : { binary: await binary.compute(), area: await areaOf(area) }),
    gathered: {
      scores: Array.from(await gathered.scores.data(), Number),
      labels: Array.from(await gathered.labels.data(), Number),
    },
  };
}

/** The area under the curve. Null if it is not defined. */
async function areaOf(metric: RocAuc): Promise<number | null> {
  try {
    return await metric.compute();
  } catch (error) {
    if (error instanceof Error && error.name === 'DataError') return null;
    throw error;
  }
}
