import { statistics } from '@shardwise/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { EngineStatistics } from '../src/engine/engine-statistics.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { randomModel, randomTokens, trainingLogProbabilities, useCpu } from './models.ts';

beforeAll(useCpu);

type TokensRequest = Omit<GenerationRequest, 'prompt'> & { readonly prompt: readonly number[] };

async function answer(engine: Engine, request: GenerationRequest): Promise<Completion> {
  const [first] = await complete(engine.generate(request));
  return first ?? expect.fail();
}

const requests = [3, 40, 65, 120, 17, 90].map((length, seed): TokensRequest => ({
  prompt: randomTokens(seed + 1, length),
  maxNewTokens: 40,
  seed,
  logProbabilities: 0,
  ignoreEos: true,
}));
const scarce = { blockSize: 8, cacheTokens: 280, prefixCaching: false } as const;

type Counts = Pick<EngineStatistics, 'preemptions' | 'computedTokens'>;

describe.each(['gpt2', 'llama'] as const)('Sequences of %s whose blocks are swapped', (family) => {
  test.each(['auto', 'int8'] as const)(
    'get the texts of those that compute anew, and compute each token once (%s).',
    async (kvCacheDtype) => {
      const model = randomModel(family);
      const run = async (
        options: EngineOptions,
      ): Promise<readonly [readonly Completion[], Counts]> => {
        const engine = new Engine(model, null, { ...scarce, kvCacheDtype, ...options });
        const texts = await Promise.all(requests.map((request) => answer(engine, request)));
        const { preemptions, computedTokens, usedBlocks, swappedBlocks } = engine.statistics;
        expect({ usedBlocks, swappedBlocks }).toEqual({ usedBlocks: 0, swappedBlocks: 0 });
        await engine.dispose();
        return [texts, { preemptions, computedTokens }];
      };
      const [expected, anew] = await run({ preemption: 'recompute' });
      const [texts, swapped] = await run({ preemption: 'swap' });
      expect(anew.preemptions).toBeGreaterThan(0);
      expect(swapped.preemptions).toBeGreaterThan(0);
      expect(texts).toEqual(expected);
      const once = requests.reduce((sum, { prompt }) => sum + prompt.length + 39, 0);
      expect(swapped.computedTokens).toBe(once);
      expect(anew.computedTokens).toBeGreaterThan(once);
    },
  );

  test('have the log-probabilities of training, also if only some find room outside.', async () => {
    const model = randomModel(family);
    const engine = new Engine(model, null, {
      ...scarce,
      prefixCaching: true,
      preemption: 'swap',
      // A token has keys and values of two layers.
      swapSpace: 60 * 2 * 2 * 4 * (family === 'gpt2' ? 48 : 32),
    });
    const texts = await Promise.all(requests.map((request) => answer(engine, request)));
    expect(engine.statistics.preemptions).toBeGreaterThan(0);
    for (const [index, { tokens, logProbabilities }] of texts.entries()) {
      const { prompt } = requests[index] ?? expect.fail();
      const all = await trainingLogProbabilities(model, [...prompt, ...tokens]);
      expect(logProbabilities).toEqual(all.slice(prompt.length - 1));
    }
    await engine.dispose();
  });
});

test('Swapping compiles nothing in steps like those before.', async () => {
  await useCpu();
  const engine = new Engine(randomModel('gpt2'), null, { ...scarce, preemption: 'swap' });
  const wave = async (): Promise<number> => {
    const before = statistics().programsCompiled;
    await Promise.all(requests.map((request) => answer(engine, request)));
    return statistics().programsCompiled - before;
  };
  const counts = [await wave(), await wave(), await wave()];
  expect(counts[2]).toBe(0);
  await engine.dispose();
});

test('A space for swapping without swapping is refused.', () => {
  expect(() => new Engine(randomModel('gpt2'), null, { swapSpace: 1000 })).toThrow(
    "preemption: 'recompute'",
  );
});
