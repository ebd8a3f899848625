import { statistics } from '@shardwise/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { randomModel, randomTokens, trainingLogProbabilities, useCpu } from './models.ts';

beforeAll(useCpu);

type TokensRequest = Omit<GenerationRequest, 'prompt'> & { readonly prompt: readonly number[] };

/** What does not depend on the requests before. */
type Answer = Omit<Completion, 'cachedTokens'>;

async function answer(engine: Engine, request: GenerationRequest): Promise<Answer> {
  const [first] = await complete(engine.generate(request));
  const { cachedTokens: _, ...text } = first ?? expect.fail();
  return text;
}

const requests = [3, 40, 65, 120, 17].map((length, seed): TokensRequest => ({
  prompt: randomTokens(seed + 1, length),
  maxNewTokens: 24,
  seed,
  logProbabilities: 0,
  ignoreEos: true,
}));

/** The largest difference of a log-probability from that of a training forward, of models whose logits are large. */
const bounds = { float16: 0.01, bfloat16: 0.1, int8: 0.2 } as const;

describe.each(['gpt2', 'llama'] as const)('The keys and values of %s', (family) => {
  test.each(['float16', 'bfloat16', 'int8'] as const)(
    'kept as %s give log-probabilities that differ from those of training by no more than a bound',
    async (kvCacheDtype) => {
      const model = randomModel(family);
      const engine = new Engine(model, null, { kvCacheDtype });
      const texts = await Promise.all(requests.map((request) => answer(engine, request)));
      let largest = 0;
      for (const [index, { tokens, logProbabilities }] of texts.entries()) {
        const { prompt } = requests[index] ?? expect.fail();
        const all = await trainingLogProbabilities(model, [...prompt, ...tokens]);
        for (const [at, own] of logProbabilities.entries()) {
          largest = Math.max(largest, Math.abs(own - (all[prompt.length - 1 + at] ?? 0)));
        }
      }
      expect(largest).toBeLessThan(bounds[kvCacheDtype]);
      expect(largest).toBeGreaterThan(0);
      await engine.dispose();
    },
  );

  test.each(['float16', 'bfloat16', 'int8'] as const)(
    'kept as %s give the same bits alone, in a batch, in chunks, after preemptions and with a known prefix',
    async (kvCacheDtype) => {
      const model = randomModel(family);
      const whole = new Engine(model, null, { kvCacheDtype, maxChunkTokens: 256 });
      const alone: Answer[] = [];
      for (const request of requests) alone.push(await answer(whole, request));
      const crowded = new Engine(model, null, {
        kvCacheDtype,
        blockSize: 8,
        cacheTokens: 240,
        maxChunkTokens: 19,
      });
      const texts = await Promise.all(requests.map((request) => answer(crowded, request)));
      expect(crowded.statistics.preemptions).toBeGreaterThan(0);
      expect(texts).toEqual(alone);
      expect(await answer(whole, requests[3] ?? expect.fail())).toEqual(alone[3]);
      expect(whole.statistics.prefixTokens).toBeGreaterThan(0);
      await Promise.all([whole.dispose(), crowded.dispose()]);
    },
  );
});

test.each([
  ['f16', 0],
  // Processors with products of bf16 add in another order.
  ['bf16', 0.2],
] as const)(
  'A model of %s keeps keys and values in this dtype, and its log-probabilities differ from those of training by at most %d.',
  async (dtype, most) => {
    const model = randomModel('llama');
    await model.to(dtype);
    const engine = new Engine(model, null, { cacheTokens: 512 });
    const texts = await Promise.all(requests.map((request) => answer(engine, request)));
    for (const [index, { tokens, logProbabilities }] of texts.entries()) {
      const { prompt } = requests[index] ?? expect.fail();
      const all = await trainingLogProbabilities(model, [...prompt, ...tokens]);
      for (const [at, own] of logProbabilities.entries()) {
        const expected = all[prompt.length - 1 + at] ?? Number.NaN;
        expect(Math.abs(own - expected)).toBeLessThanOrEqual(most);
      }
    }
    // 2 layers, keys and values, 2 heads of 16 numbers of 2 bytes, and a spare block.
    expect(engine.statistics.cacheBytes).toBe((512 + 16) * 2 * 2 * 32 * 2);
    await engine.dispose();
  },
);

test('Fewer bits take fewer bytes.', async () => {
  const bytes: number[] = [];
  for (const kvCacheDtype of ['auto', 'float16', 'int8'] as const) {
    const engine = new Engine(randomModel('llama'), null, { kvCacheDtype, cacheTokens: 512 });
    await answer(engine, { prompt: [1], maxNewTokens: 1 });
    bytes.push(engine.statistics.cacheBytes);
    await engine.dispose();
  }
  const [all = 0] = bytes;
  // A head of 16 numbers has one scale.
  expect(bytes).toEqual([all, all / 2, all / 4 + all / 16]);
});

test.each(['float16', 'int8'] as const)(
  'A cache of %s compiles nothing in steps like those before.',
  async (kvCacheDtype) => {
    await useCpu();
    const engine = new Engine(randomModel('gpt2'), null, { kvCacheDtype });
    const wave = async (): Promise<number> => {
      const before = statistics().programsCompiled;
      await Promise.all(requests.map((request) => answer(engine, request)));
      return statistics().programsCompiled - before;
    };
    const counts = [await wave(), await wave(), await wave()];
    expect(counts[0]).toBeLessThanOrEqual(12);
    expect(counts[2]).toBe(0);
    await engine.dispose();
  },
);
