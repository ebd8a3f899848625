import { Generator } from '@shardwise/core/extend';
import { statistics } from '@shardwise/core';
import { expect } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import type { Speculation } from '../src/speculation/speculation.ts';
import { randomModel, randomTokens, trainingLogProbabilities } from './models.ts';

/** Requests that begin with some common prefixes, for which the cache has too few blocks. */
function arrivingRequests(
  count: number,
  vocabulary: number,
): readonly (Omit<GenerationRequest, 'prompt'> & { readonly prompt: readonly number[] })[] {
  const generator = new Generator(9);
  const below = (most: number): number => Math.floor((generator.uniform(1, 0, 1)[0] ?? 0) * most);
  const prefixes = [0, 19, 40].map((length, index) => randomTokens(index + 1, length, vocabulary));
  return Array.from({ length: count }, (_, seed) => ({
    prompt: [...(prefixes[below(3)] ?? []), ...randomTokens(seed + 100, 1 + below(60), vocabulary)],
    maxNewTokens: 1 + below(40),
    seed,
    temperature: below(4) === 0 ? 0 : 1,
    logProbabilities: 0,
    ignoreEos: true,
  }));
}

/**
 * Answers requests that arrive while others are answered, some of which are given up. Expects that each token has the
 * log-probability that a training forward over the same text gives, bit for bit, that the texts are those of requests
 * that are alone, and that no block is lost.
 */
export async function expectAgreement(
  family: 'gpt2' | 'llama' | 'wide',
  count: number,
  speculation?: Speculation,
): Promise<void> {
  const model = randomModel(family);
  const engine = new Engine(model, null, {
    maxSequences: 32,
    maxChunkTokens: 24,
    blockSize: 8,
    cacheTokens: 256,
    ...(speculation === undefined ? {} : { speculation }),
  });
  const alone = speculation === undefined ? engine : new Engine(model);
  const requests = arrivingRequests(count, family === 'wide' ? 2048 : 211);
  const compiled = statistics().programsCompiled;
  const pending: Promise<Completion | null>[] = [];
  let waves = 0;
  for (const [index, request] of requests.entries()) {
    const isGivenUp = index % 10 === 7;
    pending.push(isGivenUp ? beginning(engine, request) : answer(engine, request));
    // Most arrive together with others, which are 40 to begin with.
    if (index < 40 || index % 3 > 0) continue;
    await Promise.race(pending.slice(-16));
    waves++;
  }
  const all = await Promise.all(pending);
  await engine.drain();
  const { usedBlocks, preemptions, prefixTokens, proposedTokens, acceptedTokens } =
    engine.statistics;
  // Two for each form of a step of a model, and some for sizes that happen to be those of something else.
  const models = speculation?.method === 'draft' ? 2 : 1;
  expect(statistics().programsCompiled - compiled).toBeLessThan(20 * models);
  expect({ usedBlocks, waves: waves > 0 }).toEqual({ usedBlocks: 0, waves: count > 40 });
  expect(acceptedTokens > 0).toBe(speculation !== undefined);
  expect(proposedTokens > acceptedTokens).toBe(speculation !== undefined);
  expect(preemptions).toBeGreaterThan(0);
  expect(prefixTokens).toBeGreaterThan(0);
  for (const [index, request] of requests.entries()) {
    const text = all[index];
    if (text === null || text === undefined) continue;
    const { prompt } = request;
    expect(text.tokens).toHaveLength(request.maxNewTokens ?? 0);
    const expected = await trainingLogProbabilities(model, [...prompt, ...text.tokens]);
    expect(text.logProbabilities, `request ${index}`).toEqual(expected.slice(prompt.length - 1));
    if (index % 8 === 0) expect(await answer(alone, request)).toEqual(text);
  }
  await engine.dispose();
  await alone.dispose();
}

async function answer(engine: Engine, request: GenerationRequest): Promise<Completion> {
  const [first] = await complete(engine.generate(request));
  return first ?? expect.fail();
}

/** Reads three tokens, and no more. */
async function beginning(engine: Engine, request: GenerationRequest): Promise<null> {
  let count = 0;
  for await (const _ of engine.generate(request)) if (++count === 3) break;
  return null;
}
