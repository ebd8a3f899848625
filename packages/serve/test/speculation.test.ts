import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import type { Speculation } from '../src/speculation/speculation.ts';
import { lookUp } from '../src/speculation/prompt-lookup.ts';
import { metricsText } from '../src/http/metrics.ts';
import { randomModel, randomTokens, smallModel, useCpu } from './models.ts';

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

test('A draft model that is the model itself is always right, greedily and with draws.', async () => {
  const engine = new Engine(smallModel(61, 3), null, {
    speculation: { method: 'draft', model: smallModel(61, 3), tokens: 4 },
    prefixCaching: false,
  });
  for (const temperature of [0, 1]) {
    const before = engine.statistics;
    await answer(engine, {
      prompt: randomTokens(3, 20, 61),
      maxNewTokens: 21,
      temperature,
      seed: 5,
      topP: temperature === 0 ? 1 : 0.9,
      frequencyPenalty: 0.5,
      ignoreEos: true,
    });
    const { steps, proposedTokens, acceptedTokens } = engine.statistics;
    // A step for the prompt, and one for each five tokens behind the first one.
    expect(steps - before.steps).toBe(1 + 4);
    expect(proposedTokens - before.proposedTokens).toBe(16);
    expect(acceptedTokens - before.acceptedTokens).toBe(16);
  }
});

test('Prometheus reads how many tokens were proposed and accepted.', async () => {
  const speculation: Speculation = { method: 'draft', model: smallModel(61, 3), tokens: 3 };
  const engine = new Engine(smallModel(61, 3), null, { speculation });
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
