import { cpu } from '@shardwise/backend-cpu';
import { noGrad, statistics } from '@shardwise/core';
import { elementCount, fromData, Generator } from '@shardwise/core/extend';
import {
  type AdapterFiles,
  adapterFiles,
  addLora,
  loadAdapter,
  type LoraOptions,
  type PretrainedModel,
  stackAdapters,
} from '@shardwise/models';
import { parallelize, tensorParallel } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { complete, type Completion } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import {
  dividableModel,
  randomModel,
  randomTokens,
  trainingLogProbabilities,
  useCpu,
} from './models.ts';

beforeAll(useCpu);

type Family = 'gpt2' | 'llama';

const targets = {
  gpt2: { one: ['c_attn'], two: ['c_attn', 'mlp.c_proj'], three: 'all-linear' },
  llama: { one: ['q_proj', 'v_proj'], two: ['v_proj', 'down_proj'], three: 'all-linear' },
} as const;

/** An adapter of a random model that changes its texts. */
async function adapter(
  family: Family,
  seed: number,
  options: LoraOptions,
  modelOf: (family: Family) => PretrainedModel = randomModel,
): Promise<AdapterFiles> {
  const generator = new Generator(seed);
  const model = addLora(modelOf(family), { ...options, generator });
  for (const [name, parameter] of model.namedParameters()) {
    if (!name.includes('lora_B')) continue;
    const { shape } = parameter;
    const values = generator.uniform(elementCount(shape), -0.3, 0.3);
    noGrad(() => parameter.assign(fromData(values, shape, 'f32')));
  }
  return adapterFiles(model);
}

async function adaptersOf(
  family: Family,
  modelOf?: (family: Family) => PretrainedModel,
): Promise<Readonly<Record<string, AdapterFiles>>> {
  const { one, two, three } = targets[family];
  const own = { rank: 1, alpha: 1, useRslora: true, targetModules: three };
  return {
    one: await adapter(family, 11, { rank: 3, alpha: 5, targetModules: one }, modelOf),
    two: await adapter(family, 12, { rank: 8, alpha: 16, targetModules: two }, modelOf),
    three: await adapter(family, 13, own, modelOf),
  };
}

/** What does not depend on the requests before. */
type Answer = Omit<Completion, 'cachedTokens'>;

async function answer(engine: Engine, request: GenerationRequest): Promise<Answer> {
  const [first] = await complete(engine.generate(request));
  const { cachedTokens: _, ...text } = first ?? expect.fail();
  return text;
}

async function adapted(family: Family, files: AdapterFiles | undefined): Promise<PretrainedModel> {
  const model = randomModel(family);
  if (files !== undefined) await loadAdapter(model, files);
  return model;
}

describe.each(['gpt2', 'llama'] as const)('Requests with adapters of %s', (family) => {
  test('begin with no block of a request with another adapter.', async () => {
    const model = randomModel(family);
    const engine = new Engine(model, null, {
      adapters: await stackAdapters(model, await adaptersOf(family)),
    });
    const prompt = randomTokens(5, 70);
    const request = { prompt, maxNewTokens: 4, temperature: 0, ignoreEos: true };
    for (const own of [{}, { adapter: 'one' }, { adapter: 'two' }]) {
      await answer(engine, { ...request, ...own });
      expect(engine.statistics.prefixTokens).toBe(0);
    }
    await answer(engine, { ...request, adapter: 'one' });
    expect(engine.statistics.prefixTokens).toBe(64);
    await answer(engine, { ...request, adapter: 'one', tenant: 'other' });
    expect(engine.statistics.prefixTokens).toBe(64);
    await engine.dispose();
  });

  test('get in one batch, bit for bit, what a model with this adapter alone gives, and a training forward over it.', async () => {
    const files = await adaptersOf(family);
    const model = randomModel(family);
    const engine = new Engine(model, null, {
      adapters: await stackAdapters(model, files),
      maxChunkTokens: 24,
      cacheTokens: 240,
      blockSize: 8,
    });
    const requests = [undefined, 'one', 'two', 'three', 'one', 'two', undefined, 'three'].map(
      (name, seed) => ({
        name,
        request: {
          // Some have the same prompt.
          prompt: randomTokens(seed % 3, 50),
          maxNewTokens: 45,
          seed,
          logProbabilities: 0,
          ignoreEos: true,
        },
      }),
    );
    const texts = await Promise.all(
      requests.map(({ name, request }) =>
        answer(engine, { ...request, ...(name === undefined ? {} : { adapter: name }) }),
      ),
    );
    expect(engine.statistics.preemptions).toBeGreaterThan(0);
    await engine.dispose();
    for (const [index, { name, request }] of requests.entries()) {
      const own = await adapted(family, name === undefined ? undefined : files[name]);
      const alone = new Engine(own);
      expect(texts[index], name).toEqual(await answer(alone, request));
      await alone.dispose();
      const text = texts[index] ?? expect.fail();
      const all = await trainingLogProbabilities(own, [...request.prompt, ...text.tokens]);
      expect(text.logProbabilities).toEqual(all.slice(request.prompt.length - 1));
    }
    expect(new Set(texts.slice(0, 4).map(({ tokens }) => tokens.join())).size).toBe(4);
  });
});

describe.each(['gpt2', 'llama'] as const)('With parts of %s on two ranks,', (family) => {
  const createDevice = () => cpu({ batchInvariant: true });
  const onTwo = { createDevice, axes: [{ name: 'tp', size: 2 }] };
  const names = [undefined, 'one', 'two', 'three'];
  const answers = (engine: Engine): Promise<readonly Answer[]> =>
    Promise.all(
      names.map((name, seed) =>
        answer(engine, {
          prompt: randomTokens(seed % 2, 30),
          maxNewTokens: 12,
          temperature: 0,
          logProbabilities: 0,
          ignoreEos: true,
          ...(name === undefined ? {} : { adapter: name }),
        }),
      ),
    );
  const engineOf = async (files: Readonly<Record<string, AdapterFiles>>, ranks: number) => {
    const model = dividableModel(family);
    const adapters = await stackAdapters(model, files);
    const own = ranks > 1 ? await parallelize(model, tensorParallel()) : model;
    return new Engine(own, null, { adapters });
  };

  test('requests with adapters get the tokens of one rank, and its scores to rounding.', async () => {
    const files = await adaptersOf(family, dividableModel);
    const alone = await engineOf(files, 1);
    const expected = await answers(alone);
    await alone.dispose();
    const [texts = []] = await onRanks(
      2,
      async ({ rank }) => {
        const engine = await engineOf(files, 2);
        const own = rank === 0 ? await answers(engine) : await engine.follow().then(() => []);
        await engine.dispose();
        return own;
      },
      onTwo,
    );
    expect(texts.map(({ tokens }) => tokens)).toEqual(expected.map(({ tokens }) => tokens));
    for (const [index, { logProbabilities }] of texts.entries()) {
      for (const [at, value] of logProbabilities.entries()) {
        expect(value).toBeCloseTo(expected[index]?.logProbabilities[at] ?? Number.NaN, 4);
      }
    }
    expect(new Set(texts.map(({ tokens }) => tokens.join())).size).toBe(4);
  });

  test('a rank with other adapters is an error.', async () => {
    const { one, two } = await adaptersOf(family, dividableModel);
    if (one === undefined || two === undefined) expect.fail();
    await expect(
      onRanks(
        2,
        async ({ rank }) => {
          const engine = await engineOf(rank === 0 ? { one, two } : { two: one, one: two }, 2);
          if (rank > 0) await engine.follow();
          else await answer(engine, { prompt: [1], adapter: 'one' });
        },
        onTwo,
      ),
    ).rejects.toThrow('other adapters');
  });
});

test('Requests with other adapters than before compile nothing.', async () => {
  const model = randomModel('llama');
  const engine = new Engine(model, null, {
    adapters: await stackAdapters(model, await adaptersOf('llama')),
  });
  const wave = async (names: readonly string[]): Promise<number> => {
    const before = statistics().programsCompiled;
    await Promise.all(
      names.map((name, seed) =>
        answer(engine, {
          prompt: randomTokens(seed, 60),
          maxNewTokens: 12,
          adapter: name,
          seed,
          ignoreEos: true,
        }),
      ),
    );
    return statistics().programsCompiled - before;
  };
  await wave(['one', 'one', 'one']);
  await wave(['one', 'one', 'one']);
  expect(await wave(['one', 'two', 'three'])).toBe(0);
  expect(await wave(['three', 'three', 'one'])).toBe(0);
  await engine.dispose();
});

describe('What adapters cannot be is refused', () => {
  test('a name that there is not', async () => {
    const model = randomModel('gpt2');
    const adapters = await stackAdapters(model, await adaptersOf('gpt2'));
    const engine = new Engine(model, null, { adapters });
    expect(() => engine.generate({ prompt: [1], adapter: 'four' })).toThrow(
      'the adapters one, two, three',
    );
    expect(() => new Engine(randomModel('gpt2')).generate({ prompt: [1], adapter: 'one' })).toThrow(
      'an engine without adapters',
    );
    expect(() => new Engine(randomModel('gpt2'), null, { adapters })).toThrow(
      'adapters of another model',
    );
  });

  test('what has other terms than low ranks, or no finite ones', async () => {
    const dora = await adapter('gpt2', 1, { rank: 2, useDora: true, targetModules: ['c_attn'] });
    await expect(stackAdapters(randomModel('gpt2'), { dora })).rejects.toThrow('DoRA');
    await expect(stackAdapters(randomModel('gpt2'), {})).rejects.toThrow('no adapters');
    const model = addLora(randomModel('gpt2'), { rank: 1, targetModules: ['c_attn'] });
    await expect(stackAdapters(model, await adaptersOf('gpt2'))).rejects.toThrow('has an adapter');
    const [parameter] = model.parameters().filter(({ requiresGrad }) => requiresGrad);
    if (parameter === undefined) expect.fail();
    noGrad(() => parameter.assign(parameter.add(Number.POSITIVE_INFINITY)));
    const broken = await adapterFiles(model);
    await expect(stackAdapters(randomModel('gpt2'), { broken })).rejects.toThrow('not finite');
  });
});
