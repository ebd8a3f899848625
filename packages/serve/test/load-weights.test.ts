import { nn, noGrad } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import type { PretrainedModel } from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GeneratedToken, GenerationRequest } from '../src/engine/generation-request.ts';
import {
  changedModel,
  randomModel,
  randomTokens,
  trainingLogProbabilities,
  useCpu,
} from './models.ts';

beforeAll(useCpu);

const request = {
  prompt: randomTokens(5, 20),
  maxNewTokens: 12,
  seed: 1,
  logProbabilities: 0,
  ignoreEos: true,
} satisfies GenerationRequest;

/** Makes the weights of a random model those of `changedModel`, one parameter after the other. */
async function change(model: PretrainedModel): Promise<void> {
  for (const parameter of model.parameters()) {
    noGrad(() => parameter.assign(parameter.mul(1.1)));
    await parameter.realize();
  }
}

async function answer(engine: Engine): Promise<Completion> {
  const [text] = await complete(engine.generate(request));
  return text ?? expect.fail();
}

/** The log-probabilities that a model gives what was generated. */
async function ofModel(
  model: PretrainedModel,
  tokens: readonly number[],
): Promise<readonly number[]> {
  const all = await trainingLogProbabilities(model, [...request.prompt, ...tokens]);
  return all.slice(request.prompt.length - 1);
}

/** Reads the first tokens of an answer, does something, and reads the others. */
async function answerAround(
  engine: Engine,
  count: number,
  act: () => void,
): Promise<GeneratedToken[]> {
  const tokens: GeneratedToken[] = [];
  for await (const token of engine.generate(request)) {
    tokens.push(token);
    if (tokens.length === count) act();
  }
  return tokens;
}

describe('An engine that is given other weights', () => {
  test('goes on with what it answers: behind each token with the weights of one model.', async () => {
    const model = randomModel('llama');
    const engine = new Engine(model);
    let loaded = Promise.resolve();
    const answered = await answerAround(engine, 4, () => {
      loaded = engine.loadWeights(() => change(model), { version: 'step-000001' });
    });
    await loaded;
    const tokens = answered.map(({ token }) => token ?? 0);
    const given = answered.map(({ logProbability }) => logProbability);
    const [before, after] = [
      await ofModel(randomModel('llama'), tokens),
      await ofModel(await changedModel('llama'), tokens),
    ];
    const changedAt = given.findIndex((each, at) => each !== before[at]);
    // The step that ran, and perhaps one more, had begun.
    expect(changedAt).toBeGreaterThanOrEqual(4);
    expect(changedAt).toBeLessThanOrEqual(6);
    expect(given).toEqual([...before.slice(0, changedAt), ...after.slice(changedAt)]);
    expect(engine.statistics).toMatchObject({ weightsVersion: 'step-000001', weightsLoads: 1 });
    await engine.dispose();
  });

  test('can answer what it has begun with the old ones, while others wait.', async () => {
    const model = randomModel('llama');
    const engine = new Engine(model);
    let later: Promise<Completion> | undefined;
    let hasLoaded = false;
    const answered = await answerAround(engine, 4, () => {
      void engine.loadWeights(
        async () => {
          await change(model);
          hasLoaded = true;
        },
        { version: 'new', inFlight: 'finish' },
      );
      later = answer(engine);
    });
    expect(hasLoaded).toBe(false);
    const second = (await later) ?? expect.fail();
    expect(hasLoaded).toBe(true);
    expect(answered.map(({ logProbability }) => logProbability)).toEqual(
      await ofModel(
        randomModel('llama'),
        answered.map(({ token }) => token ?? 0),
      ),
    );
    expect(second.logProbabilities).toEqual(
      await ofModel(await changedModel('llama'), second.tokens),
    );
    expect(engine.statistics).toMatchObject({ running: 0, waiting: 0, usedBlocks: 0 });
    await engine.dispose();
  });

  test('computes keys and values anew when new parameters replace some of the old ones.', async () => {
    const model = randomModel('llama');
    const engine = new Engine(model);
    await change(model);
    await answer(engine);
    const name = 'model.layers.0.mlp.down_proj.weight';
    const old = new Map(model.namedParameters()).get(name) ?? expect.fail();
    const { numel, shape } = old;
    const replacement = new nn.Parameter(new Generator(2).normal(numel, 0, 0.2), shape);
    model.replaceParameters(new Map([[old, replacement]]));
    const { tokens, logProbabilities } = await answer(engine);
    expect(logProbabilities).toEqual(await ofModel(model, tokens));
    expect(engine.statistics.prefixTokens).toBe(0);
  });

  test('runs no step while they are loaded, also for a request that comes meanwhile.', async () => {
    const model = randomModel('llama');
    const engine = new Engine(model);
    await answer(engine);
    const { steps } = engine.statistics;
    const all = Promise.withResolvers<void>();
    const loaded = engine.loadWeights(
      async () => {
        await all.promise;
        await change(model);
      },
      { version: 'new' },
    );
    const text = answer(engine);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(engine.statistics.steps).toBe(steps);
    all.resolve();
    await loaded;
    const { tokens, logProbabilities } = await text;
    expect(logProbabilities).toEqual(await ofModel(await changedModel('llama'), tokens));
    await engine.dispose();
  });

  test.each(['recompute', 'finish'] as const)(
    'goes on with the old ones if the others cannot be loaded (%s).',
    async (inFlight) => {
      const engine = new Engine(randomModel('llama'));
      const before = await answer(engine);
      const broken = (): Promise<void> => Promise.reject(new Error('a broken file'));
      const failed = engine.loadWeights(broken, { version: 'new', inFlight });
      await expect(failed).rejects.toThrow('a broken file');
      let failedLater = Promise.resolve();
      const around = await answerAround(engine, 3, () => {
        failedLater = engine.loadWeights(broken, { version: 'new', inFlight });
        failedLater.catch(() => undefined);
      });
      await expect(failedLater).rejects.toThrow('a broken file');
      expect(around.map(({ token }) => token)).toEqual(before.tokens);
      expect((await answer(engine)).tokens).toEqual(before.tokens);
      expect(engine.statistics).toMatchObject({
        weightsVersion: null,
        weightsLoads: 0,
        weightsLoadFailures: 2,
      });
      await engine.dispose();
    },
  );

  test('loads several one after the other, and the last ones stay.', async () => {
    const model = randomModel('llama');
    const engine = new Engine(model);
    const order: string[] = [];
    const load = (version: string, inFlight: 'recompute' | 'finish'): Promise<void> =>
      engine.loadWeights(async () => void order.push(version), { version, inFlight });
    const text = answer(engine);
    await Promise.all([load('a', 'recompute'), load('b', 'finish'), load('c', 'recompute'), text]);
    expect(order).toEqual(['a', 'b', 'c']);
    expect(engine.statistics.weightsVersion).toBe('c');
    await engine.dispose();
  });

  test('loads what it was asked for also if all requests end in between.', async () => {
    const engine = new Engine(randomModel('gpt2'));
    const controller = new AbortController();
    const text = complete(engine.generate({ ...request, signal: controller.signal }));
    const loaded = engine.loadWeights(() => Promise.resolve(), {
      version: 'a',
      inFlight: 'finish',
    });
    controller.abort(new Error('gone'));
    await expect(text).rejects.toThrow('gone');
    await loaded;
    await engine.dispose();
  });
});
