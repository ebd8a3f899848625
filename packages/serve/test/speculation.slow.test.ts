import { fromData } from '@shardwise/core/extend';
import type { GPT2LMHeadModel } from '@shardwise/models';
import { beforeAll, expect, test } from 'vitest';
import { complete } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { Speculation } from '../src/speculation/speculation.ts';
import { smallModel, useCpu } from './models.ts';

beforeAll(useCpu);

const ngram: Speculation = { method: 'ngram', tokens: 3, promptLookupMin: 1 };

/** The probabilities of all texts of four tokens behind a prompt. The number of a text has the digits of its tokens. */
async function enumerated(model: GPT2LMHeadModel, prompt: readonly number[]): Promise<number[]> {
  const digits = (text: number): number[] =>
    [27, 9, 3, 1].map((unit) => Math.floor(text / unit) % 3);
  const rows = Array.from({ length: 81 }, (_, text) => [...prompt, ...digits(text)]);
  const ids = fromData(Int32Array.from(rows.flat()), [81, prompt.length + 4], 'i32');
  const data = await model.forward(ids).logSoftmax().data();
  return rows.map((row, index) => {
    const logProbability = row.slice(prompt.length).reduce((sum, token, at) => {
      const place = index * row.length + prompt.length + at - 1;
      return sum + Number(data[place * 3 + token]);
    }, 0);
    return Math.exp(logProbability);
  });
}

test.each<readonly [string, () => Speculation]>([
  ['n-grams', () => ngram],
  ['a draft model', () => ({ method: 'draft', model: smallModel(3, 8), tokens: 3 })],
])('With %s, texts have the probabilities that the model gives them.', async (_, speculation) => {
  const model = smallModel(3, 2);
  const prompt = [0, 1, 2, 0, 1];
  const probabilities = await enumerated(model, prompt);
  expect(probabilities.reduce((sum, each) => sum + each, 0)).toBeCloseTo(1, 4);
  const engine = new Engine(model, null, { speculation: speculation() });
  const counts = probabilities.map(() => 0);
  const draws = 1600;
  for (let seed = 0; seed < draws; seed += 32) {
    const request = { prompt, maxNewTokens: 4, ignoreEos: true, samples: 32, seed };
    const texts = await complete(engine.generate(request));
    for (const { tokens } of texts) {
      const text = tokens.reduce((number, token) => number * 3 + token, 0);
      counts[text] = (counts[text] ?? 0) + 1;
    }
  }
  const { proposedTokens, acceptedTokens } = engine.statistics;
  expect(acceptedTokens).toBeGreaterThan(0);
  expect(acceptedTokens).toBeLessThan(proposedTokens);
  // Texts that are expected less than five times are counted as one.
  const cells = probabilities.map(
    (probability, text) => [probability * draws, counts[text] ?? 0] as const,
  );
  const rare = cells.filter(([expected]) => expected < 5);
  const total = (at: 0 | 1): number => rare.reduce((sum, cell) => sum + cell[at], 0);
  const all = [...cells.filter(([expected]) => expected >= 5), [total(0), total(1)] as const];
  const chiSquare = all.reduce(
    (sum, [expected, count]) => sum + (expected === 0 ? 0 : (count - expected) ** 2 / expected),
    0,
  );
  const freedom = all.length - 1;
  expect(freedom).toBeGreaterThan(10);
  // Five standard deviations above the mean.
  expect(chiSquare).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom));
});
