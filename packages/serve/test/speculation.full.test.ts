import { noGrad, statistics } from '@shardwise/core';
import { byteTokenizer } from '@shardwise/data';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import type { Speculation } from '../src/speculation/speculation.ts';
import type { TokenConstraint } from '../src/constraints/token-constraint.ts';
import {
  changedModel,
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

const ngram: Speculation = { method: 'ngram', tokens: 3, promptLookupMin: 1 };

test.each(golden.models)(
  '$name generates what transformers generates, with a draft model and too few blocks.',
  async ({ name, greedy }) => {
    const engine = new Engine(await goldenModel(name), null, {
      speculation: { method: 'draft', model: await goldenModel(name) },
      blockSize: 4,
      cacheTokens: 64,
      maxChunkTokens: 3,
    });
    const texts = await Promise.all(
      golden.prompts.map((prompt) =>
        answer(engine, { prompt, maxNewTokens: 24, temperature: 0, ignoreEos: true }),
      ),
    );
    expect(texts.map(({ tokens }) => tokens)).toEqual(greedy.map((row) => row.slice(0, 24)));
    expect(engine.statistics.acceptedTokens).toBeGreaterThan(0);
    expect(engine.statistics.usedBlocks).toBe(0);
    await engine.dispose();
  },
);

const evenTokens: TokenConstraint = {
  begin: () => ({
    isComplete: false,
    mask: (scores) => {
      for (let token = 1; token < scores.length; token += 2) scores[token] = -Infinity;
    },
    accept: () => {},
  }),
};

describe.each<readonly [string, () => Promise<Speculation>]>([
  ['n-grams', async () => ngram],
  ['a draft model', async () => ({ method: 'draft', model: await changedModel('gpt2') })],
])('With %s, a text is the same as without,', (_, speculation) => {
  const request: GenerationRequest = {
    prompt: [...randomTokens(5, 9), ...randomTokens(5, 9)],
    maxNewTokens: 32,
    seed: 3,
    temperature: 0.4,
    logProbabilities: 2,
    ignoreEos: true,
  };
  const requests: Readonly<Record<string, GenerationRequest>> = {
    greedily: { ...request, temperature: 0 },
    'with draws': request,
    'with penalties': { ...request, repetitionPenalty: 1.1, presencePenalty: 0.2 },
    'with fewer tokens to draw among': { ...request, topK: 9, topP: 0.8, minP: 0.01 },
    'with a constraint': { ...request, constraint: evenTokens },
    'with an end token': { ...request, ignoreEos: false, stopTokenIds: [3, 7, 22, 41] },
    'with a stop': { ...request, stop: ['e', 'A'] },
    'with several samples': { ...request, samples: 3 },
    'of one token': { ...request, maxNewTokens: 1 },
  };

  const engines: Engine[] = [];
  beforeAll(async () => {
    for (const chosen of [{}, { speculation: await speculation() }]) {
      const options = { ...chosen, blockSize: 4 };
      engines.push(new Engine(randomModel('gpt2'), byteTokenizer(), options));
    }
  });

  test.each(Object.entries(requests))('%s', async (__, own) => {
    const texts: (readonly Completion[])[] = [];
    for (const engine of engines) {
      texts.push(await complete(engine.generate(own)));
      expect(engine.statistics.usedBlocks).toBe(0);
    }
    expect(texts[1]).toEqual(texts[0]);
  });
});

test('Two programs are compiled for each form of a step of each model, and none for other requests.', async () => {
  // A rank that has compiled nothing yet.
  await useCpu();
  const engine = new Engine(randomModel('gpt2'), null, {
    maxSequences: 8,
    speculation: { method: 'draft', model: await changedModel('gpt2'), tokens: 3 },
  });
  const compiledBy = async (wave: number): Promise<number> => {
    const before = statistics().programsCompiled;
    await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        answer(engine, {
          prompt: randomTokens(wave * 20 + index, 2 + ((wave * 37 + index * 29) % 150)),
          maxNewTokens: 5 + ((wave + index * 7) % 20),
          seed: index,
          ignoreEos: true,
        }),
      ),
    );
    return statistics().programsCompiled - before;
  };
  // Both models have a chunk, single tokens, and both, the draft without log-probabilities, as here.
  expect(await compiledBy(0)).toBeLessThanOrEqual(6);
  expect(await compiledBy(1)).toBe(0);
});

test('A request that ends while the draft model computes leaves nothing behind.', async () => {
  const speculation: Speculation = { method: 'draft', model: randomModel('gpt2') };
  const engine = new Engine(randomModel('gpt2'), null, { speculation, prefixCaching: false });
  const request = { prompt: randomTokens(5, 37), maxNewTokens: 30, seed: 1, ignoreEos: true };
  const alone = await answer(engine, request);
  for (let delay = 0; delay < 12; delay += 4) {
    const controller = new AbortController();
    const aborted = complete(engine.generate({ ...request, signal: controller.signal }));
    const other = answer(engine, request);
    setTimeout(() => controller.abort(new Error('the client has gone')), delay);
    await expect(aborted).rejects.toThrow('the client has gone');
    expect(await other).toEqual(alone);
  }
  expect(engine.statistics).toMatchObject({ waiting: 0, running: 0, usedBlocks: 0 });
});

test('Texts go on with the weights that there are, when these change while a draft model computes.', async () => {
  const model = randomModel('gpt2');
  const speculation: Speculation = { method: 'draft', model: randomModel('gpt2') };
  const engine = new Engine(model, null, { speculation });
  const request = {
    prompt: randomTokens(5, 37),
    maxNewTokens: 60,
    seed: 1,
    logProbabilities: 0,
    ignoreEos: true,
  };
  const pending = answer(engine, request);
  for (let update = 0; update < 6; update++) {
    for (const parameter of model.parameters()) {
      noGrad(() => parameter.assign(parameter.mul(1.02)));
      await parameter.realize();
    }
  }
  expect((await pending).tokens).toHaveLength(60);
  const { tokens, logProbabilities } = await answer(engine, request);
  const all = await trainingLogProbabilities(model, [...request.prompt, ...tokens]);
  expect(logProbabilities).toEqual(all.slice(36));
  expect(engine.statistics.usedBlocks).toBe(0);
});
