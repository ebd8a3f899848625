import { statistics } from '@shardwise/core';
import { byteTokenizer } from '@shardwise/data';
import { generate } from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { golden, goldenModel, randomModel, randomTokens, useCpu } from './models.ts';

beforeAll(useCpu);

type TokensRequest = Omit<GenerationRequest, 'prompt'> & { readonly prompt: readonly number[] };

function answers(engine: Engine, request: GenerationRequest): Promise<readonly Completion[]> {
  return complete(engine.generate(request));
}

/** Settings of beam search, with the end token of a model. */
const ways = [
  { numBeams: 2, lengthPenalty: 1 },
  { numBeams: 4, lengthPenalty: 0.3 },
  { numBeams: 3, lengthPenalty: 2, earlyStopping: true },
  { numBeams: 3, repetitionPenalty: 1.5 },
] as const;

describe.each(golden.models)('The beams of $name', ({ name, eos, earlyBeams }) => {
  test('are the two best ones of transformers, which ends early.', async () => {
    const engine = new Engine(await goldenModel(name), null, { blockSize: 4 });
    const texts = await Promise.all(
      golden.prompts.map((prompt) =>
        answers(engine, {
          prompt,
          maxNewTokens: 12,
          numBeams: 3,
          samples: 2,
          lengthPenalty: 2,
          earlyStopping: true,
          stopTokenIds: [eos],
        }),
      ),
    );
    expect(texts.flat().map(({ tokens }) => tokens)).toEqual(earlyBeams);
    await engine.dispose();
  });

  test.each(ways)('are those of generate, which are those of transformers: %j', async (way) => {
    const model = await goldenModel(name);
    const engine = new Engine(model, null, { blockSize: 4, maxChunkTokens: 7 });
    const texts = await Promise.all(
      golden.prompts.map((prompt) =>
        answers(engine, { ...way, prompt, maxNewTokens: 12, stopTokenIds: [eos] }),
      ),
    );
    expect(engine.statistics).toMatchObject({ usedBlocks: 0, running: 0, waiting: 0 });
    await engine.dispose();
    const expected = await generate(model, golden.prompts, {
      ...way,
      maxNewTokens: 12,
      eosTokenId: eos,
    });
    expect(
      texts.map(([best], row) => [...(golden.prompts[row] ?? []), ...(best?.tokens ?? [])]),
    ).toEqual(expected);
  });
});

describe('Beams', () => {
  const requests = [30, 41, 55].map((length, seed): TokensRequest => ({
    prompt: randomTokens(seed + 1, length),
    maxNewTokens: 20,
    numBeams: 4,
    ignoreEos: true,
  }));
  const scarce: Readonly<Record<string, EngineOptions>> = {
    'are computed anew': {},
    'are swapped': { preemption: 'swap' },
    'are computed anew, and their prompts are not kept': { prefixCaching: false },
  };

  test.each(Object.entries(scarce))(
    'are the same if blocks run out and they %s, beside other requests.',
    async (_, options) => {
      const model = randomModel('llama');
      const engine = new Engine(model, null, {
        ...options,
        blockSize: 4,
        maxChunkTokens: 16,
        // Some more than the beams of one request have at their end.
        cacheTokens: 4 * 76 + 16,
      });
      const others = [11, 12, 13, 14].map((seed) =>
        answers(engine, {
          prompt: randomTokens(seed, 30),
          maxNewTokens: 70,
          seed,
          ignoreEos: true,
        }),
      );
      const texts = await Promise.all(requests.map((request) => answers(engine, request)));
      await Promise.all(others);
      const { preemptions, usedBlocks, swappedBlocks } = engine.statistics;
      expect(preemptions).toBeGreaterThan(0);
      expect([usedBlocks, swappedBlocks]).toEqual([0, 0]);
      await engine.dispose();
      const expected = await generate(
        model,
        requests.map(({ prompt }) => prompt),
        { maxNewTokens: 20, numBeams: 4, eosTokenId: [] },
      );
      expect(
        texts.map(([best], row) => [...(requests[row]?.prompt ?? []), ...(best?.tokens ?? [])]),
      ).toEqual(expected);
    },
  );

  test('share the blocks of their prompt, and copy the last one when they write it.', async () => {
    const engine = new Engine(randomModel('gpt2'), null, { blockSize: 16, prefixCaching: false });
    const request = {
      prompt: randomTokens(3, 100),
      maxNewTokens: 10,
      numBeams: 4,
      ignoreEos: true,
    };
    const counts: number[] = [];
    for await (const _ of engine.generate(request)) counts.push(engine.statistics.usedBlocks);
    expect(engine.statistics.computedTokens).toBe(100 + 4 * 9);
    await engine.dispose();
  });

  test('come as the best texts, the best one first, as many as were asked for.', async () => {
    const engine = new Engine(randomModel('gpt2'), byteTokenizer());
    const request = { prompt: [65, 66], maxNewTokens: 6, numBeams: 3, ignoreEos: true };
    const all = await answers(engine, { ...request, samples: 3 });
    expect(all.map(({ sample }) => sample)).toEqual([0, 1, 2]);
    expect(new Set(all.map(({ tokens }) => tokens.join())).size).toBe(3);
    expect(all.map(({ finishReason }) => finishReason)).toEqual(['length', 'length', 'length']);
    expect(await answers(engine, request)).toEqual(all.slice(0, 1));
    await engine.dispose();
  });

  test('end with what there is when their time is over, or their client goes.', async () => {
    let time = 0;
    const engine = new Engine(randomModel('gpt2'), null, { now: () => time++ });
    const request = { prompt: [1, 2, 3], maxNewTokens: 100, numBeams: 3, ignoreEos: true };
    const [best] = await answers(engine, { ...request, timeoutMs: 10 });
    expect(best?.finishReason).toBe('timeout');
    expect(best?.tokens.length).toBeGreaterThan(3);
    const controller = new AbortController();
    const aborted = answers(engine, { ...request, signal: controller.signal });
    controller.abort(new Error('the client has gone'));
    await expect(aborted).rejects.toThrow('the client has gone');
    await engine.drain();
    expect(engine.statistics).toMatchObject({ usedBlocks: 0, running: 0, waiting: 0 });
    await engine.dispose();
  });

  test('compile nothing in steps like those before.', async () => {
    await useCpu();
    const engine = new Engine(randomModel('gpt2'));
    const wave = async (): Promise<number> => {
      const before = statistics().programsCompiled;
      await Promise.all(requests.map((request) => answers(engine, request)));
      return statistics().programsCompiled - before;
    };
    const counts = [await wave(), await wave(), await wave()];
    expect(counts[2]).toBe(0);
    await engine.dispose();
  });

  const wrong: readonly (readonly [string, Partial<GenerationRequest>, string])[] = [
    ['draws', { numBeams: 2, temperature: 1 }, 'temperature: 1'],
    ['more texts than beams', { numBeams: 2, samples: 3 }, 'samples: 3'],
    ['seeds', { numBeams: 2, seed: 3 }, 'seed, which beams do not follow'],
    ['log-probabilities', { numBeams: 2, logProbabilities: 0 }, 'logProbabilities, which'],
    ['settings of beams without beams', { lengthPenalty: 2 }, 'no beams'],
  ];

  test.each(wrong)('are refused with %s', (_, own, message) => {
    const engine = new Engine(randomModel('gpt2'));
    expect(() => engine.generate({ prompt: [1], ...own })).toThrow(message);
  });
});
