import { Generator } from '@shardwise/core/extend';
import { statistics } from '@shardwise/core';
import type { PretrainedModel } from '@shardwise/models';
import { expect } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { EngineOptions } from '../src/engine/engine-options.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { randomModel, randomTokens, trainingLogProbabilities } from './models.ts';

type TokensRequest = Omit<GenerationRequest, 'prompt'> & { readonly prompt: readonly number[] };

/** The most tokens of a prompt behind its prefix, and the most that are generated. */
interface Lengths {
  readonly prompt: number;
  readonly generated: number;
}

/** Requests that begin with some common prefixes. */
function* arrivingRequests(
  vocabulary: number,
  lengths: Lengths,
): IterableIterator<TokensRequest, never> {
  const generator = new Generator(9);
  const below = (most: number): number => Math.floor((generator.uniform(1, 0, 1)[0] ?? 0) * most);
  const prefixes = [0, 19, 40].map((length, index) => randomTokens(index + 1, length, vocabulary));
  for (let seed = 0; ; seed++) {
    const own = randomTokens(seed + 100, 1 + below(lengths.prompt), vocabulary);
    yield {
      prompt: [...(prefixes[below(3)] ?? []), ...own],
      maxNewTokens: 1 + below(lengths.generated),
      seed,
      temperature: below(4) === 0 ? 0 : 1,
      logProbabilities: 0,
      ignoreEos: true,
    };
  }
}

/**
 * Requests that arrive at an engine while others are answered, some of which are given up. Chunks of prompts are short, and
 * blocks are scarce, so sequences lose theirs.
 */
export class RandomArrivals {
  readonly engine: Engine;
  readonly #model: PretrainedModel;
  /** Answers single requests. */
  readonly #alone: Engine;
  readonly #requests: IterableIterator<TokensRequest, never>;
  #sent = 0;
  #mostRunning = 0;

  constructor(
    family: 'gpt2' | 'llama' | 'wide',
    options: EngineOptions = {},
    lengths: Lengths = { prompt: 60, generated: 40 },
  ) {
    this.#model = randomModel(family);
    this.engine = new Engine(this.#model, null, {
      maxSequences: 32,
      maxChunkTokens: 24,
      blockSize: 8,
      cacheTokens: 256,
      beforeStep: () => {
        this.#mostRunning = Math.max(this.#mostRunning, this.engine.statistics.running);
      },
      ...options,
    });
    this.#alone = options.speculation === undefined ? this.engine : new Engine(this.#model);
    this.#requests = arrivingRequests(family === 'wide' ? 2048 : 211, lengths);
  }

  /** The most sequences that a step had. */
  get mostRunning(): number {
    return this.#mostRunning;
  }

  /**
   * Answers some more requests. Expects that each token has the log-probability that a training forward over the same text
   * gives, bit for bit, that the texts are those of requests that are alone, and that no block is lost. Returns how many
   * programs were compiled meanwhile.
   */
  async expectAgreement(count: number): Promise<number> {
    const requests = Array.from({ length: count }, () => this.#requests.next().value);
    const compiled = statistics().programsCompiled;
    const pending: Promise<Completion | null>[] = [];
    for (const [index, request] of requests.entries()) {
      const isGivenUp = (this.#sent + index) % 10 === 7;
      const { engine } = this;
      pending.push(isGivenUp ? beginning(engine, request) : answer(engine, request));
      // Most arrive together with others, which are 40 to begin with.
      if (index >= 40 && index % 3 === 0) await Promise.race(pending.slice(-16));
    }
    const all = await Promise.all(pending);
    await this.engine.drain();
    const programs = statistics().programsCompiled - compiled;
    const { usedBlocks, swappedBlocks } = this.engine.statistics;
    expect({ usedBlocks, swappedBlocks }).toEqual({ usedBlocks: 0, swappedBlocks: 0 });
    for (const [index, request] of requests.entries()) {
      const text = all[index];
      if (text !== null && text !== undefined) await this.#compare(request, text, index);
    }
    this.#sent += count;
    return programs;
  }

  async dispose(): Promise<void> {
    await this.engine.dispose();
    await this.#alone.dispose();
  }

  async #compare(request: TokensRequest, text: Completion, index: number): Promise<void> {
    const { prompt } = request;
    expect(text.tokens).toHaveLength(request.maxNewTokens ?? 0);
    const expected = await trainingLogProbabilities(this.#model, [...prompt, ...text.tokens]);
    const title = `request ${this.#sent + index}`;
    expect(text.logProbabilities, title).toEqual(expected.slice(prompt.length - 1));
    if (index % 16 !== 0) return;
    // What others have computed in a crowd may be in the cache no longer, or not yet.
    const alone = { ...(await answer(this.#alone, request)), cachedTokens: text.cachedTokens };
    expect(alone, title).toEqual(text);
  }
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
