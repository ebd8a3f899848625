import { noGrad, statistics } from '@shardwise/core';
import { fromData, Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { lookUp } from '../src/speculation/prompt-lookup.ts';
import type { Speculation } from '../src/speculation/speculation.ts';
import type { TokenConstraint } from '../src/constraints/token-constraint.ts';
import { metricsText } from '../src/http/metrics.ts';
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

describe('What followed the last tokens before', () => {
  const lengths = { most: 3, least: 1 };

  test('is proposed, at the longest end that came before, and its last place.', () => {
    const tokens = [1, 2, 3, 7, 9, 1, 2, 3, 8, 4, 3, 5, 1, 2, 3];
    expect(lookUp(tokens, 3, lengths)).toEqual([8, 4, 3]);
    expect(lookUp([...tokens, 4, 3], 2, lengths)).toEqual([5, 1]);
  });

  test('goes on with itself, where the text repeats itself.', () => {
    expect(lookUp([5, 1, 2, 1, 2, 1], 5, lengths)).toEqual([2, 1, 2, 1, 2]);
    expect(lookUp([4, 4], 3, lengths)).toEqual([4, 4, 4]);
  });

  test('is nothing, where they never came, or fewer than the least.', () => {
    expect(lookUp([1, 2, 3], 3, lengths)).toEqual([]);
    expect(lookUp([9, 1, 2, 1], 3, { most: 3, least: 2 })).toEqual([]);
    expect(lookUp([1], 3, lengths)).toEqual([]);
  });
});

const ngram: Speculation = { method: 'ngram', tokens: 3, promptLookupMin: 1 };

describe.each(golden.models)('$name', ({ name, greedy }) => {
  const ways: Readonly<Record<string, () => Promise<EngineOptions>>> = {
    'n-grams of the text': async () => ({ speculation: ngram }),
    'a draft model that is right': async () => ({
      speculation: { method: 'draft', model: await goldenModel(name) },
    }),
    'too few blocks': async () => ({
      speculation: { method: 'draft', model: await goldenModel(name) },
      blockSize: 4,
      cacheTokens: 64,
      maxChunkTokens: 3,
    }),
  };

  test.each(Object.entries(ways))(
    'generates what transformers generates, with %s',
    async (_, options) => {
      const engine = new Engine(await goldenModel(name), null, await options());
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
});

test('A draft model that is the model itself is always right, greedily and with draws.', async () => {
  const engine = new Engine(randomModel('llama'), null, {
    speculation: { method: 'draft', model: randomModel('llama'), tokens: 4 },
    prefixCaching: false,
  });
  for (const temperature of [0, 1]) {
    const before = engine.statistics;
    await answer(engine, {
      prompt: randomTokens(3, 70),
      maxNewTokens: 41,
      temperature,
      seed: 5,
      topP: temperature === 0 ? 1 : 0.9,
      frequencyPenalty: 0.5,
      ignoreEos: true,
    });
    const { steps, proposedTokens, acceptedTokens } = engine.statistics;
    // Two steps for the prompt, and one for each five tokens behind the first one.
    expect(steps - before.steps).toBe(2 + 8);
    expect(proposedTokens - before.proposedTokens).toBe(32);
    expect(acceptedTokens - before.acceptedTokens).toBe(32);
  }
});

/** A model with few tokens, so that texts repeat themselves. */
function smallModel(vocabSize: number, seed: number): GPT2LMHeadModel {
  return new GPT2LMHeadModel(
    {
      vocabSize,
      nPositions: 64,
      nEmbd: 16,
      nLayer: 1,
      nHead: 2,
      initializerRange: 0.5,
      residPdrop: 0,
      embdPdrop: 0,
      attnPdrop: 0,
    },
    { generator: new Generator(seed) },
  );
}

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

test('A bounded number of programs is compiled, and none for what has been before.', async () => {
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
  const counts: number[] = [];
  for (const wave of [0, 1, 2, 2, 2]) counts.push(await compiledBy(wave));
  // Two for each form of a step of each model, and some for sizes that happen to be those of something else.
  expect(counts[0]).toBeLessThanOrEqual(14);
  expect(counts.slice(1, 4).reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(6);
  expect(counts.at(-1)).toBe(0);
});

test('A request that ends while the draft model computes leaves nothing behind.', async () => {
  const speculation: Speculation = { method: 'draft', model: randomModel('gpt2') };
  const engine = new Engine(randomModel('gpt2'), null, { speculation, prefixCaching: false });
  const request = { prompt: randomTokens(5, 37), maxNewTokens: 30, seed: 1, ignoreEos: true };
  const alone = await answer(engine, request);
  for (let delay = 0; delay < 12; delay += 2) {
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

test('Prometheus reads how many tokens were proposed and accepted.', async () => {
  const speculation: Speculation = { method: 'draft', model: randomModel('gpt2'), tokens: 3 };
  const engine = new Engine(randomModel('gpt2'), null, { speculation });
  await answer(engine, { prompt: [1, 2, 3], maxNewTokens: 9, temperature: 0, ignoreEos: true });
  const text = metricsText([{ id: 'small', engine, embed: null }], new Map());
  expect(text).toContain('vllm:spec_decode_num_draft_tokens_total{model_name="small"} 6\n');
  expect(text).toContain('vllm:spec_decode_num_accepted_tokens_total{model_name="small"} 6\n');
});

describe('What cannot be is refused', () => {
  const wrong: Readonly<Record<string, readonly [() => Speculation, string]>> = {
    'no tokens': [
      () => ({ method: 'ngram', tokens: 0 }),
      'speculation with tokens: 0: a value that is not a whole number from 1 to 64',
    ],
    'a least length above the most': [
      () => ({ method: 'ngram', promptLookupMin: 3, promptLookupMax: 2 }),
      'promptLookupMin: 3',
    ],
    'a draft model with other tokens': [
      () => ({ method: 'draft', model: smallModel(5, 1) }),
      '5 tokens, where the model has 211',
    ],
    'a draft model with fewer positions': [
      () => ({ method: 'draft', model: smallModel(211, 1) }),
      '64 positions, where the model has 512',
    ],
  };

  test.each(Object.entries(wrong))('%s', (_, [speculation, message]) => {
    const make = (): Engine =>
      new Engine(randomModel('gpt2'), null, { speculation: speculation() });
    expect(make).toThrow(message);
  });

  test.each([
    [{ method: 'eagle' }, "method: 'eagle': no such method"],
    [{ method: 'draft' }, 'no option model'],
    [{ method: 'ngram', numTokens: 3 }, 'no option of this name'],
    [null, "an object with the method 'ngram' or 'draft'"],
  ])('%j', (speculation, message) => {
    const options: object = { speculation };
    expect(() => new Engine(randomModel('gpt2'), null, options)).toThrow(message);
  });
});
