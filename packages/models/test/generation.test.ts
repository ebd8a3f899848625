import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, setRank, statistics } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import {
  architectures,
  generate,
  type GenerateOptions,
  GPT2LMHeadModel,
  modelFromConfig,
  type PretrainedModel,
  streamTokens,
} from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { drawToken } from '../src/generation/choose-token.ts';
import { processorsOf, type ProcessorSettings } from '../src/generation/logits-processors.ts';
import { fill, uniform } from './golden/formulas.ts';

const rows = z.array(z.array(z.number()));
const numbers = z
  .string()
  .transform((text) =>
    text.split(' ').map((each) => (each === '-inf' ? Number.NEGATIVE_INFINITY : Number(each))),
  );
const golden = z
  .object({
    prompts: rows,
    models: z.array(
      z.object({
        name: z.string(),
        architecture: z.string(),
        config: z.record(z.string(), z.unknown()),
        greedy: rows,
        eos: z.number(),
        greedyWithEos: rows,
        penalized: rows,
        beams: rows,
        earlyBeams: rows,
      }),
    ),
    processors: z.object({ ids: rows, results: z.record(z.string(), numbers) }),
  })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/generation.json`, 'utf8')));

const { prompts } = golden;

beforeAll(async () => {
  setRank({ device: await cpu() });
});

async function build(name = 'GPT-2'): Promise<PretrainedModel> {
  const { config, architecture } =
    golden.models.find((each) => each.name === name) ?? expect.fail();
  const model = modelFromConfig({ ...config, architectures: [architecture] }, architectures);
  await fill(model);
  return model;
}

/** The new tokens of each row. */
async function added(
  model: PretrainedModel,
  options: GenerateOptions,
  given: readonly number[][] = prompts,
): Promise<number[][]> {
  const texts = await generate(model, given, options);
  return texts.map((text, row) => {
    const length = given[row]?.length ?? 0;
    expect(text.slice(0, length)).toEqual(given[row]);
    return text.slice(length);
  });
}

describe.each(golden.models)('$name', (goldenOf) => {
  const { name, greedy, eos, greedyWithEos, penalized, beams, earlyBeams } = goldenOf;

  test('continues prompts of different lengths greedily as transformers does', async () => {
    const model = await build(name);
    expect(await added(model, { maxNewTokens: 40 })).toEqual(greedy);
    expect(await added(model, { maxNewTokens: 40, eosTokenId: eos })).toEqual(greedyWithEos);
  });

  test('continues each prompt by itself as in a batch', async () => {
    const model = await build(name);
    for (const [row, prompt] of prompts.entries()) {
      expect(await added(model, { maxNewTokens: 12 }, [prompt])).toEqual([
        greedy[row]?.slice(0, 12),
      ]);
    }
  });

  test('repeats less with a penalty, as in transformers', async () => {
    const model = await build(name);
    expect(await added(model, { maxNewTokens: 10, repetitionPenalty: 1.7 })).toEqual(penalized);
  });

  test('searches beams as transformers does', async () => {
    const model = await build(name);
    const search = (numBeams: number, lengthPenalty: number): Promise<number[][]> =>
      added(model, { maxNewTokens: 12, numBeams, lengthPenalty, eosTokenId: eos });
    const [two, four] = [await search(2, 1), await search(4, 0.3)];
    expect(two).toEqual(beams.filter((_, index) => index % 2 === 0));
    expect(four).toEqual(beams.filter((_, index) => index % 2 === 1));
  });

  test('ends a search of beams as soon as there are enough rows, as transformers does', async () => {
    const model = await build(name);
    const options = { maxNewTokens: 12, numBeams: 3, lengthPenalty: 2, earlyStopping: true };
    const found = await added(model, { ...options, eosTokenId: eos });
    expect(found).toEqual(earlyBeams.filter((_, index) => index % 2 === 0));
  });
});

describe('logits processors', () => {
  const none: ProcessorSettings = {
    temperature: 1,
    topK: null,
    topP: 1,
    minP: 0,
    repetitionPenalty: 1,
  };
  const settings: Readonly<Record<string, Partial<ProcessorSettings>>> = {
    repetitionPenalty: { repetitionPenalty: 1.3 },
    temperature: { temperature: 0.7 },
    topK: { topK: 5 },
    topP: { topP: 0.8 },
    minP: { minP: 0.2 },
    all: { repetitionPenalty: 1.3, temperature: 1.4, topK: 20, topP: 0.9, minP: 0.1 },
  };

  test.each(Object.entries(golden.processors.results))(
    '%s is that of transformers',
    (key, expected) => {
      const scores = uniform('scores', 96).map((value) => value * 8);
      scores[48 + 5] = scores[48 + 9] ?? 0;
      const found = golden.processors.ids.flatMap((tokens, row) => {
        const own = scores.slice(row * 48, (row + 1) * 48);
        for (const process of processorsOf({ ...none, ...settings[key] }, true))
          process(own, tokens);
        return [...own];
      });
      for (const [index, value] of expected.entries()) {
        if (Number.isFinite(value)) expect(found[index]).toBeCloseTo(value, 4);
        else expect(found[index], `${index}`).toBe(value);
      }
    },
  );
});

describe('draws', () => {
  test('are reproducible by seed, and differ between seeds', async () => {
    const model = await build();
    const draw = (seed: number): Promise<number[][]> =>
      added(model, { maxNewTokens: 8, doSample: true, generator: new Generator(seed) });
    const first = await draw(1);
    expect(await draw(1)).toEqual(first);
    expect(await draw(2)).not.toEqual(first);
    const byDefault = (): Promise<number[][]> => {
      manualSeed(5);
      return added(model, { maxNewTokens: 8, doSample: true });
    };
    expect(await byDefault()).toEqual(await byDefault());
  });

  test('have the frequencies of the probabilities', () => {
    const generator = new Generator(4);
    const scores = Float32Array.of(0, Math.log(2), Number.NEGATIVE_INFINITY, Math.log(5));
    const counts = [0, 0, 0, 0];
    const draws = 8000;
    for (let draw = 0; draw < draws; draw++) {
      const token = drawToken(scores, generator);
      counts[token] = (counts[token] ?? 0) + 1;
    }
    expect(counts[2]).toBe(0);
    for (const [token, share] of [1 / 8, 2 / 8, 0, 5 / 8].entries()) {
      expect(Math.abs((counts[token] ?? 0) / draws - share)).toBeLessThan(0.02);
    }
  });

  test('take the most likely token where only one is left', async () => {
    const model = await build();
    const [first] = golden.models;
    const options = { maxNewTokens: 6, doSample: true, topK: 1, generator: new Generator(1) };
    expect(await added(model, options)).toEqual(first?.greedy.map((row) => row.slice(0, 6)));
  });
});

describe('the end of a row', () => {
  const greedy = golden.models[0]?.greedy ?? [];

  test('is after a row of tokens in stop', async () => {
    const stop = [greedy[0]?.slice(8, 11) ?? []];
    const [first, second] = await added(await build(), { maxNewTokens: 14, stop });
    expect(first).toEqual(greedy[0]?.slice(0, 11));
    expect(second).toEqual(greedy[1]?.slice(0, 14));
  });

  test('is after a text in stop', async () => {
    const decode = (tokens: readonly number[]): string =>
      tokens.map((token) => String.fromCodePoint(48 + token)).join('');
    const stop = [decode(greedy[1]?.slice(1, 4) ?? [])];
    const [, second] = await added(await build(), { maxNewTokens: 14, stop, decode });
    expect(second).toEqual(greedy[1]?.slice(0, 4));
  });

  test('is the eos_token_id of the config, if none is given', async () => {
    const { config, architecture, eos, greedyWithEos } = golden.models[1] ?? expect.fail();
    const json = { ...config, architectures: [architecture], eos_token_id: [eos] };
    const model = modelFromConfig(json, architectures);
    await fill(model);
    expect(await added(model, { maxNewTokens: 40 })).toEqual(greedyWithEos);
    const none = { maxNewTokens: 12, eosTokenId: [] };
    expect(await added(model, none)).toEqual(golden.models[1]?.greedy.map((r) => r.slice(0, 12)));
  });
});

describe('a stream', () => {
  test('yields a token of each row at a time, and null after its end', async () => {
    const { eos, greedyWithEos } = golden.models[1] ?? expect.fail();
    const model = await build('Llama');
    const steps: (readonly (number | null)[])[] = [];
    for await (const step of streamTokens(model, prompts, { maxNewTokens: 40, eosTokenId: eos })) {
      steps.push(step);
    }
    expect(steps).toHaveLength(Math.max(...greedyWithEos.map((row) => row.length)));
    for (const [row, expected] of greedyWithEos.entries()) {
      expect(steps.flatMap((step) => step[row] ?? [])).toEqual(expected);
    }
  });

  test('has no dropout while others of the model begin and end', async () => {
    const model = await build();
    model.train();
    const [long, short] = [9, 3].map((maxNewTokens) =>
      streamTokens(model, prompts, { maxNewTokens }),
    );
    const steps: (readonly (number | null)[])[] = [];
    await short?.next();
    for await (const step of long ?? expect.fail()) {
      steps.push(step);
      await short?.next();
    }
    const { greedy } = golden.models[0] ?? expect.fail();
    for (const [row, expected] of greedy.entries()) {
      expect(steps.map((step) => step[row])).toEqual(expected.slice(0, 9));
    }
    expect(model.training).toBe(true);
  });

  test('can be left early, and each module keeps its mode', async () => {
    const model = await build();
    model.train();
    model.children[0]?.eval();
    const modes = (): boolean[] => model.namedModules().map(([, { training }]) => training);
    const before = modes();
    for await (const [token] of streamTokens(model, prompts, { maxNewTokens: 9 })) {
      expect(token).toBe(golden.models[0]?.greedy[0]?.[0]);
      expect(modes()).toEqual(before);
      break;
    }
    expect(modes()).toEqual(before);
  });
});

test('compiles a bounded number of programs, and none for a second text', async () => {
  const model = await build('Llama');
  const compiled = async (maxNewTokens: number): Promise<number> => {
    const before = statistics().programsCompiled;
    await generate(model, prompts, { maxNewTokens });
    return statistics().programsCompiled - before;
  };
  await compiled(4);
  expect(await compiled(20)).toBe(0);
  // The cache grows once, from 64 to 128 slots.
  expect(await compiled(40)).toBeLessThanOrEqual(4);
  expect(await compiled(40)).toBe(0);
  expect(await compiled(48)).toBe(0);
});

describe('what cannot be is refused', () => {
  const wrong: readonly (readonly [string, number[][], GenerateOptions, string])[] = [
    ['no prompts', [], { maxNewTokens: 2 }, 'no prompts'],
    ['an empty prompt', [[1], []], { maxNewTokens: 2 }, 'row 1 has no tokens'],
    ['a token that is not there', [[48]], { maxNewTokens: 2 }, 'row 0 has the token 48'],
    [
      'a prompt longer than the context',
      [Array.from({ length: 70 }, () => 1)],
      { maxNewTokens: 2 },
      'where the model has 64 positions. Give the end of the prompt only',
    ],
    [
      'more new tokens than positions',
      [[1, 2, 3, 4]],
      { maxNewTokens: 61 },
      'Give maxNewTokens of at most 60',
    ],
    ['k above the vocabulary', [[1]], { maxNewTokens: 2, doSample: true, topK: 49 }, 'topK: 49'],
    ['a temperature without draws', [[1]], { maxNewTokens: 2, temperature: 2 }, 'nothing is drawn'],
    ['draws with beams', [[1]], { maxNewTokens: 2, numBeams: 2, doSample: true }, 'numBeams: 2'],
    ['a length penalty without beams', [[1]], { maxNewTokens: 2, lengthPenalty: 2 }, 'no beams'],
    ['a text to stop at without decode', [[1]], { maxNewTokens: 2, stop: ['a'] }, 'no decode'],
    [
      'no temperature',
      [[1]],
      { maxNewTokens: 2, doSample: true, temperature: 0 },
      'temperature: 0',
    ],
  ];

  test.each(wrong)('%s', async (_, given, options, message) => {
    await expect(generate(await build(), given, options)).rejects.toThrow(message);
  });

  test.each([
    ['a text', ['Once upon'], /row 0 is .*tokenizer\.encode\(text\)\.inputIds/],
    ['an encoding', [{ inputIds: [1] }], /row 0 is .*inputIds/],
    ['one row alone', [1, 2], /row 0 is .*Give rows of tokens/],
    ['a promise', Promise.resolve([[1]]), /a Promise in the place of rows/],
  ])('%s as prompts', async (_, given, message) => {
    const wrong: never = given as never;
    const model = await build();
    await expect(generate(model, wrong, { maxNewTokens: 2 })).rejects.toThrow(message);
    await expect(streamTokens(model, wrong, { maxNewTokens: 2 }).next()).rejects.toThrow(message);
  });

  test('a model that is not awaited', async () => {
    const model: never = Promise.resolve() as never;
    await expect(generate(model, [[1]], { maxNewTokens: 2 })).rejects.toThrow(
      'generate with a Promise: no model',
    );
    await expect(savePretrained(model, 'never')).rejects.toThrow(
      'a Promise: a value that is not a model',
    );
  });

  test('an option of another name', async () => {
    const options = { maxNewTokens: 2, top_k: 3 };
    await expect(generate(await build(), [[1]], options)).rejects.toThrow('Write topK');
  });
});

test('A prompt costs one row of the head, whatever its length is.', async () => {
  const model = await build();
  const shapes: (readonly number[])[] = [];
  const { lmHead } = model instanceof GPT2LMHeadModel ? model : expect.fail();
  const forward = lmHead.forward.bind(lmHead);
  lmHead.forward = (x, labels) => {
    const logits = forward(x, labels);
    shapes.push(logits.shape);
    return logits;
  };
  await generate(model, prompts, { maxNewTokens: 2 });
  const [vocabulary] = lmHead.weight.shape;
  expect(prompts.some(({ length }) => length > 1)).toBe(true);
  expect(shapes).toEqual(Array.from({ length: 2 }, () => [prompts.length, 1, vocabulary]));
});
