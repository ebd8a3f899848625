import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { caseOf, CASES, type Item, type MetricValues, metricValues } from './ranks/metric-cases.ts';

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
    const found = await spawnRanks(size, new URL('./ranks/metric-cases.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 8 * 1024 * 1024 }),
      timeoutMs: 60_000,
    });
    for (const values of z.array(z.array(metricValues).length(CASES)).length(size).parse(found)) {
      for (const [seed, each] of values.entries()) {
        const { items, classes } = caseOf(seed);
        expect(each, `case ${seed}`).toEqual(wantedOf(items, classes));
      }
    }
  }, 70_000);
});
