import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import {
  modelInBlocks,
  randomModel,
  randomTokens,
  trainingLogProbabilities,
  useCpu,
} from './models.ts';

beforeAll(useCpu);

async function answer(engine: Engine, request: GenerationRequest): Promise<Completion> {
  const [first] = await complete(engine.generate(request));
  return first ?? expect.fail();
}

describe.each(['gpt2', 'llama'] as const)('The log-probabilities of %s', (family) => {
  const prompts = [3, 17, 64, 65, 130, 200, 1, 33].map((length, index) =>
    randomTokens(index + 1, length),
  );
  const requests = prompts.map((prompt, seed): GenerationRequest => ({
    prompt,
    maxNewTokens: 40,
    seed,
    logProbabilities: 0,
    ignoreEos: true,
  }));
  const ways: Readonly<Record<string, EngineOptions>> = {
    'in a batch': {},
    alone: { maxSequences: 1, maxChunkTokens: 256 },
    'with chunks of prompts': { maxChunkTokens: 19 },
    'with blocks of one token': { blockSize: 1 },
    'with tokens that n-grams propose': {
      speculation: { method: 'ngram', tokens: 3, promptLookupMin: 1 },
    },
    'after preemptions': { blockSize: 8, cacheTokens: 400, prefixCaching: false },
  };

  test.each(Object.entries(ways))(
    'are those of a training forward over the same text, bit for bit, %s',
    async (way, options) => {
      const model = randomModel(family);
      const engine = new Engine(model, null, options);
      const texts = await Promise.all(requests.map((request) => answer(engine, request)));
      if (way === 'after preemptions') expect(engine.statistics.preemptions).toBeGreaterThan(0);
      await engine.dispose();
      for (const [index, { tokens, logProbabilities }] of texts.entries()) {
        const prompt = prompts[index] ?? [];
        const all = await trainingLogProbabilities(model, [...prompt, ...tokens]);
        expect(logProbabilities).toEqual(all.slice(prompt.length - 1));
      }
    },
  );

  test('are the same with a prefix that was in the cache', async () => {
    const model = randomModel(family);
    const engine = new Engine(model);
    const request = requests[4] ?? expect.fail();
    const first = await answer(engine, request);
    expect(engine.statistics.prefixTokens).toBe(0);
    expect(await answer(engine, request)).toEqual({ ...first, cachedTokens: 128 });
    expect(engine.statistics.prefixTokens).toBe(128);
  });
});

test.each(['llama', 'gemma2'] as const)(
  'The log-probabilities of a %s whose weights stay in the blocks of a file are those of training, bit for bit',
  async (name) => {
    const model = await modelInBlocks(name);
    const prompts = [1, 3, 7, 12].map((length, seed) =>
      randomTokens(seed + 1, length).map((token) => token % 15),
    );
    const engine = new Engine(model, null, { maxChunkTokens: 9 });
    const texts = await Promise.all(
      prompts.map((prompt, seed) =>
        answer(engine, { prompt, maxNewTokens: 12, seed, logProbabilities: 0, ignoreEos: true }),
      ),
    );
    await engine.dispose();
    for (const [index, { tokens, logProbabilities }] of texts.entries()) {
      const prompt = prompts[index] ?? [];
      const all = await trainingLogProbabilities(model, [...prompt, ...tokens]);
      expect(logProbabilities).toEqual(all.slice(prompt.length - 1));
    }
  },
);
