import { data, fromArray, Generator } from '@shardwise/core';
import { Accuracy, F1Score, MeanMetric, Perplexity, RocAuc } from '@shardwise/data';
import { gatherForMetrics } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

/** The number of random cases. */
const CASES = 40;

/** A row of a data set: scores of classes, the right class or -100, and the loss of some tokens. */
interface Item {
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
function caseOf(seed: number): MetricCase {
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
interface MetricValues {
  loss: number;
  perplexity: number;
  accuracy: number;
  macro: number;
  micro: number;
  binary?: number | undefined;
  area?: number | null | undefined;
  /** Scores of all items, row by row, and their labels. */
  gathered: {
    scores: number[];
    labels: number[];
  };
}

/** Evaluates all cases on the ranks of `dp`. */
async function evaluateAll(place: RankInThread): Promise<readonly MetricValues[]> {
  const found: MetricValues[] = [];
  for (let seed = 0; seed < CASES; seed++) found.push(await evaluate(caseOf(seed), place));
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
    ...(binary === null ? {} : { binary: await binary.compute(), area: await areaBy(area) }),
    gathered: {
      scores: Array.from(await gathered.scores.data(), Number),
      labels: Array.from(await gathered.labels.data(), Number),
    },
  };
}

/** The area under the curve. Null if it is not defined. */
async function areaBy(metric: RocAuc): Promise<number | null> {
  try {
    return await metric.compute();
  } catch (error) {
    if (error instanceof Error && error.name === 'DataError') return null;
    throw error;
  }
}

// Metrics of items that ranks divide, against the formulas over the whole data set. Numbers are chosen so that sums are
// exact, so values must be equal to the last bit.

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, each) => total + each, 0);

function meanLoss(items: readonly Item[]): number {
  return (
    sum(items.map(({ loss, tokens }) => loss * tokens)) / sum(items.map((item) => item.tokens))
  );
}

/** The predicted class, which is the first of the highest scores, and the label of each item that counts. */
function pairsOf(items: readonly Item[]): { readonly predicted: number; readonly label: number }[] {
  return items
    .filter(({ label }) => label !== -100)
    .map(({ scores, label }) => ({ predicted: scores.indexOf(Math.max(...scores)), label }));
}

/** F1 = 2 TP / (2 TP + FP + FN) of some classes together. Null if none of them occurs. */
function f1Of(items: readonly Item[], classes: readonly number[]): number | null {
  const counts = classes.map((each) => {
    const pairs = pairsOf(items);
    const truePositives = pairs.filter((pair) => pair.predicted === each && pair.label === each);
    const wrong = pairs.filter((pair) => (pair.predicted === each) !== (pair.label === each));
    return { twice: 2 * truePositives.length, wrong: wrong.length };
  });
  const twice = sum(counts.map((each) => each.twice));
  const all = twice + sum(counts.map(({ wrong }) => wrong));
  return all === 0 ? null : twice / all;
}

/** The share of pairs of both classes in which the one of class 1 has the higher score. Equal ones count half. */
function areaOf(items: readonly Item[]): number | null {
  const scoresOf = (wanted: number): readonly number[] =>
    items.flatMap(({ scores, label }) => (label === wanted ? [scores[1] ?? NaN] : []));
  const negatives = scoresOf(0);
  const wins = scoresOf(1).flatMap((high) =>
    negatives.map((low) => (high > low ? 1 : high === low ? 0.5 : 0)),
  );
  return wins.length === 0 ? null : sum(wins) / wins.length;
}

function wantedOf(items: readonly Item[], classes: number): MetricValues {
  const all = Array.from({ length: classes }, (_, each) => each);
  const pairs = pairsOf(items);
  const ofClasses = all.flatMap((each) => f1Of(items, [each]) ?? []);
  return {
    loss: meanLoss(items),
    perplexity: Math.exp(meanLoss(items)),
    accuracy: pairs.filter(({ predicted, label }) => predicted === label).length / pairs.length,
    macro: sum(ofClasses) / ofClasses.length,
    micro: f1Of(items, all) ?? 0,
    ...(classes === 2 ? { binary: f1Of(items, [1]) ?? 0, area: areaOf(items) } : {}),
    gathered: {
      scores: items.flatMap(({ scores }) => scores),
      labels: items.map(({ label }) => label),
    },
  };
}

describe('the random cases', () => {
  const cases = Array.from({ length: CASES }, (_, seed) => caseOf(seed));
  const areas = cases.flatMap(({ items, classes }) => (classes === 2 ? [areaOf(items)] : []));

  it('have fewer items than ranks, every kind of sampler, equal scores, and areas that are defined', () => {
    expect(cases.some(({ items }) => items.length < 5)).toBe(true);
    expect(new Set(cases.map(({ sampler }) => `${sampler.repeats} ${sampler.shuffle}`)).size).toBe(
      4,
    );
    expect(cases.some(({ items }) => new Set(items.map(({ scores }) => scores[1])).size < 5)).toBe(
      true,
    );
    expect(areas.filter((area) => area !== null).length).toBeGreaterThan(5);
  });
});

describe.each([1, 2, 3, 5])('metrics on %d ranks', (size) => {
  it('are those of the formulas over the whole data set, and rows are gathered in its order', async () => {
    for (const values of await onRanks(size, evaluateAll)) {
      expect(values).toHaveLength(CASES);
      for (const [seed, each] of values.entries()) {
        const { items, classes } = caseOf(seed);
        expect(each, `case ${seed}`).toEqual(wantedOf(items, classes));
      }
    }
  });
});
