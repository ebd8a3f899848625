import { noGrad, statistics } from '@shardwise/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import type { CacheState } from '../src/scheduling/cache-state.ts';
import {
  golden,
  goldenModel,
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

describe.each(golden.models)('$name', ({ name, greedy, eos, greedyWithEos }) => {
  const expectGreedy = async (engine: Engine): Promise<void> => {
    const texts = await Promise.all(
      golden.prompts.map((prompt) =>
        answer(engine, { prompt, maxNewTokens: 24, temperature: 0, ignoreEos: true }),
      ),
    );
    expect(texts.map(({ tokens }) => tokens)).toEqual(greedy.map((row) => row.slice(0, 24)));
  };

  test('generates what transformers generates, and ends at the tokens that end a text.', async () => {
    const engine = new Engine(await goldenModel(name));
    await expectGreedy(engine);
    const texts = await Promise.all(
      golden.prompts.map((prompt) =>
        answer(engine, { prompt, maxNewTokens: 40, temperature: 0, stopTokenIds: [eos] }),
      ),
    );
    expect(texts.map(({ tokens }) => tokens)).toEqual(greedyWithEos);
    await engine.dispose();
  });

  test('generates it with prompts in chunks, and too few blocks.', async () => {
    const options = { maxChunkTokens: 3, blockSize: 4, cacheTokens: 64 };
    const engine = new Engine(await goldenModel(name), null, options);
    await expectGreedy(engine);
    await engine.dispose();
  });
});

test('The same seed gives the same text, alone and among others.', async () => {
  const engine = new Engine(randomModel('llama'));
  const request = { prompt: randomTokens(5, 20), maxNewTokens: 30, seed: 7, topP: 0.9, topK: 50 };
  const alone = await answer(engine, request);
  const others = Array.from({ length: 9 }, (_, seed) =>
    answer(engine, { prompt: randomTokens(seed + 50, 9 * seed + 2), maxNewTokens: 25 }),
  );
  // The second time, the cache has the prompt.
  expect(await answer(engine, request)).toEqual({ ...alone, cachedTokens: 16 });
  await Promise.all(others);
  expect((await answer(engine, { ...request, seed: 8 })).tokens).not.toEqual(alone.tokens);
});

test('A cache for which the machine has no memory is refused with the bytes, before any of it is taken.', async () => {
  const engine = new Engine(randomModel('gpt2'), null, { cacheTokens: 2 ** 34 });
  const refused = answer(engine, { prompt: [1, 2], maxNewTokens: 2 });
  await expect(refused).rejects.toThrow(
    /^a cache of the keys and values of 17179869184 tokens: up to layer 0 they have \d{12,} bytes, and the machine has \d+ bytes of memory left\. Give a smaller cacheTokens/,
  );
});

test('Samples of a prompt share its blocks, and are those of their seeds.', async () => {
  const engine = new Engine(randomModel('gpt2'));
  const request = { prompt: randomTokens(5, 37), maxNewTokens: 12, seed: 3 };
  const samples = await complete(engine.generate({ ...request, samples: 3 }));
  expect(engine.statistics.computedTokens).toBe(37 + 3 * 11);
  expect(samples.map(({ sample }) => sample)).toEqual([0, 1, 2]);
  const each = await Promise.all([3, 4, 5].map((seed) => answer(engine, { ...request, seed })));
  expect(samples.map(({ tokens }) => tokens)).toEqual(each.map(({ tokens }) => tokens));
});

test('A caller that stops iterating ends its request, and no block is lost.', async () => {
  const engine = new Engine(randomModel('gpt2'), null, { prefixCaching: false });
  const request = { prompt: randomTokens(5, 37), maxNewTokens: 100, ignoreEos: true };
  let count = 0;
  for await (const _ of engine.generate(request)) if (++count === 5) break;
  const controller = new AbortController();
  const aborted = complete(engine.generate({ ...request, signal: controller.signal }));
  controller.abort(new Error('the client has gone'));
  await expect(aborted).rejects.toThrow('the client has gone');
  await engine.drain();
  expect(engine.statistics).toMatchObject({ waiting: 0, running: 0, usedBlocks: 0 });
});

test('A request whose caller goes before it asks for the first token computes nothing.', async () => {
  const engine = new Engine(randomModel('gpt2'));
  const controller = new AbortController();
  const { signal } = controller;
  const tokens = engine.generate({ prompt: [1, 2, 3], maxNewTokens: 100, ignoreEos: true, signal });
  controller.abort(new Error('the client has gone'));
  expect(engine.statistics).toMatchObject({ waiting: 0, running: 0 });
  await engine.drain();
  expect(engine.statistics.generatedTokens).toBe(0);
  await expect(complete(tokens)).rejects.toThrow('the client has gone');
});

test('All samples of a request end when its time is over, also those that have not begun.', async () => {
  let now = 0;
  const engine = new Engine(randomModel('gpt2'), null, {
    now: () => now,
    beforeStep: () => void (now += 10),
  });
  const request = { prompt: [1, 2, 3], maxNewTokens: 9, samples: 3, ignoreEos: true };
  const queued = await complete(engine.generate({ ...request, timeoutMs: 5 }));
  const begun = await complete(engine.generate({ ...request, timeoutMs: 25 }));
  for (const samples of [queued, begun]) {
    expect(samples.map(({ sample, finishReason }) => [sample, finishReason])).toEqual(
      [0, 1, 2].map((sample) => [sample, 'timeout']),
    );
  }
  expect(begun.every(({ tokens }) => tokens.length === 2)).toBe(true);
});

test('A model that is being trained stays in that mode between steps, whose texts have no dropout.', async () => {
  const model = randomModel('gpt2', 1, 0.5);
  model.train();
  const modes: boolean[] = [];
  const engine = new Engine(model, null, { beforeStep: () => void modes.push(model.training) });
  const prompt = randomTokens(5, 7);
  const pending = answer(engine, { prompt, maxNewTokens: 5, temperature: 0, logProbabilities: 0 });
  const { tokens, logProbabilities } = await pending;
  expect(modes).toEqual([true, true, true, true, true]);
  expect(model.training).toBe(true);
  model.eval();
  const expected = await trainingLogProbabilities(model, [...prompt, ...tokens]);
  expect(logProbabilities).toEqual(expected.slice(prompt.length - 1));
});

test('A caller can hold steps back, and sees the blocks of each sequence between them.', async () => {
  const states: CacheState[] = [];
  const engine = new Engine(randomModel('gpt2'), null, {
    blockSize: 4,
    cacheTokens: 64,
    beforeStep: async () => {
      await new Promise((resolve) => setTimeout(resolve));
      states.push(engine.cacheState);
    },
  });
  const ask = (maxNewTokens: number, samples = 1) =>
    complete(engine.generate({ prompt: [1, 2, 3, 4, 5, 6], maxNewTokens, samples }));
  await Promise.all([ask(6), ask(6, 2)]);
  expect(states).toHaveLength(engine.statistics.steps);
  expect(states[0]?.sequences.map(({ state, blocks }) => [state, blocks.length])).toEqual([
    ['waiting', 0],
    ['waiting', 0],
  ]);
  const together = states.findLast(({ sequences }) => sequences.length === 3) ?? expect.fail();
  const [first, second, third] = together.sequences.map(({ blocks }) => blocks);
  // All three begin with the same block. What follows is their own.
  expect([second?.[0], third?.[0]]).toEqual([first?.[0], first?.[0]]);
  expect(new Set([first?.[1], second?.[1], third?.[1]]).size).toBe(3);
  expect(engine.cacheState.sequences).toEqual([]);
  expect(engine.cacheState.keptBlocks.length).toBe(engine.statistics.keptBlocks);
  await engine.dispose();
});

test('A request ends at its time limit with what there is.', async () => {
  let time = 0;
  const engine = new Engine(randomModel('gpt2'), null, { now: () => time++ });
  const request = { prompt: [1, 2, 3], maxNewTokens: 100, timeoutMs: 10, ignoreEos: true };
  const { finishReason, tokens } = await answer(engine, request);
  expect(finishReason).toBe('timeout');
  expect(tokens.length).toBeGreaterThan(3);
  expect(tokens.length).toBeLessThan(12);
});

test('After an update of the weights, texts are those of the new weights.', async () => {
  const model = randomModel('llama');
  const engine = new Engine(model);
  const request = {
    prompt: randomTokens(5, 40),
    maxNewTokens: 12,
    temperature: 0,
    logProbabilities: 0,
    ignoreEos: true,
  };
  const before = await answer(engine, request);
  for (const parameter of model.parameters()) {
    noGrad(() => parameter.assign(parameter.mul(1.1)));
    await parameter.realize();
  }
  const after = await answer(engine, request);
  expect(after.logProbabilities).not.toEqual(before.logProbabilities);
  const all = await trainingLogProbabilities(model, [...request.prompt, ...after.tokens]);
  expect(after.logProbabilities).toEqual(all.slice(39));
});

test('Six programs are compiled, two for each form of a step, and none for other requests.', async () => {
  // A rank that has compiled nothing yet.
  await useCpu();
  const engine = new Engine(randomModel('gpt2'), null, { maxSequences: 8 });
  const compiledBy = async (wave: number): Promise<number> => {
    const before = statistics().programsCompiled;
    await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        answer(engine, {
          prompt: randomTokens(wave * 20 + index, 2 + ((wave * 37 + index * 29) % 150)),
          maxNewTokens: 5 + ((wave + index * 7) % 20),
          ignoreEos: true,
        }),
      ),
    );
    return statistics().programsCompiled - before;
  };
  expect(await compiledBy(0)).toBe(6);
  expect(await compiledBy(1)).toBe(0);
});

describe('What cannot be is refused', () => {
  const wrong: readonly (readonly [string, GenerationRequest, string])[] = [
    ['an empty prompt', { prompt: [] }, 'which has no tokens'],
    ['a token that is not there', { prompt: [211] }, 'the token 211'],
    ['a text without a tokenizer', { prompt: 'a' }, 'an engine without a tokenizer'],
    [
      'a prompt beyond the context',
      { prompt: randomTokens(1, 512), maxNewTokens: 1 },
      'a model with 512 positions',
    ],
    ['k above the vocabulary', { prompt: [1], topK: 212 }, 'a vocabulary of 211 tokens'],
    ['k without draws', { prompt: [1], temperature: 0, topK: 3 }, 'nothing is drawn'],
  ];

  test.each(wrong)('%s', (_, request, message) => {
    expect(() => new Engine(randomModel('gpt2')).generate(request)).toThrow(message);
  });

  test('more tokens than the cache has places for', () => {
    const engine = new Engine(randomModel('gpt2'), null, { cacheTokens: 64 });
    const request = { prompt: randomTokens(1, 60), maxNewTokens: 10 };
    expect(() => engine.generate(request)).toThrow("of the cache's 4");
  });

  test('a cache without a block', () => {
    expect(() => new Engine(randomModel('gpt2'), null, { cacheTokens: 8 })).toThrow(
      'blocks of 16 tokens, of which none fits',
    );
  });
});
