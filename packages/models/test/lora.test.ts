import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { nn, optim, setRank, type Tensor } from '@shardwise/core';
import {
  decodeSafetensors,
  encodeSafetensors,
  Generator,
  type HostArray,
} from '@shardwise/core/extend';
import {
  adapterFiles,
  type AdapterFiles,
  addLora,
  architectures,
  loadAdapter,
  type LoraOptions,
  mergeLora,
  modelFromConfig,
  type PretrainedModel,
  removeLora,
  unmergeLora,
} from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { fill, summary, tokens } from './golden/formulas.ts';
import { SmallLanguage } from './small-language.ts';

const numbers = z.string().transform((text) => text.split(' ').map(Number));
const cases = z
  .array(
    z.object({
      name: z.string(),
      architecture: z.string(),
      config: z.record(z.string(), z.unknown()),
      lastLogits: numbers,
      merged: numbers,
      logits: numbers,
      loss: z.number(),
      gradients: z.record(z.string(), numbers),
      losses: numbers,
      adapterConfig: z.looseObject({ target_modules: z.array(z.string()) }),
      adapterModel: z.base64().transform((text) => new Uint8Array(Buffer.from(text, 'base64'))),
    }),
  )
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/lora.json`, 'utf8')));

type Golden = (typeof cases)[number];

const ROWS = 2;
const LENGTH = 12;

beforeAll(async () => {
  setRank({ device: await cpu() });
});

async function baseOf({ config, architecture }: Golden): Promise<PretrainedModel> {
  const model = modelFromConfig({ ...config, architectures: [architecture] }, architectures);
  await fill(model);
  return model.eval();
}

function filesOf({ adapterConfig: config, adapterModel: tensors }: Golden): AdapterFiles {
  return { config, tensors };
}

async function adapted(golden: Golden): Promise<PretrainedModel> {
  const model = await baseOf(golden);
  await loadAdapter(model, filesOf(golden));
  return model;
}

describe.each(cases)('$name', (golden) => {
  test('computes with the adapter of a file what peft computes', async () => {
    const model = await adapted(golden);
    const ids = tokens('ids', [ROWS, LENGTH]);
    const logits = model.forward(ids);
    expectClose(await logits.select(1, -1).flatten().data(), golden.lastLogits);
    expectClose(summary('logits', await logits.data()), golden.logits);
    const loss = model.forward(ids, { labels: ids });
    loss.backward();
    expectClose([await loss.item()], [golden.loss]);
    const trained = model.namedParameters().filter(([, { requiresGrad }]) => requiresGrad);
    expect(trained.map(([name]) => name).toSorted()).toEqual(
      Object.keys(golden.gradients).toSorted(),
    );
    for (const [name, { grad }] of trained) {
      expectClose(summary(name, (await grad?.data()) ?? []), golden.gradients[name], name);
    }
    for (const [, { requiresGrad, grad }] of model.namedParameters()) {
      expect(requiresGrad || grad === null).toBe(true);
    }
  });

  test('trains as in peft', async () => {
    const model = await adapted(golden);
    const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2, weightDecay: 0.01 });
    const losses: number[] = [];
    for (const [step] of golden.losses.entries()) {
      const batch = tokens(`step ${step}`, [ROWS, LENGTH]);
      const loss = model.forward(batch, { labels: batch });
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    expectClose(losses, golden.losses);
    const states = model.parameters().filter((each) => optimizer.stateOf(each) !== undefined);
    expect(states).toHaveLength(Object.keys(golden.gradients).length);
  });

  test('computes the same when the adapter is merged, taken out and merged for good', async () => {
    const model = await adapted(golden);
    const ids = tokens('ids', [ROWS, LENGTH]);
    const logits = async (): Promise<readonly number[]> =>
      summary('logits', await model.forward(ids).data());
    await mergeLora(model);
    expectClose(await logits(), golden.merged);
    await unmergeLora(model);
    expectClose(await logits(), golden.logits);
    await mergeLora(model);
    removeLora(model);
    expectClose(await logits(), golden.merged);
    expect(Object.keys(await model.stateDict())).toEqual(
      Object.keys(await (await baseOf(golden)).stateDict()),
    );
  });

  test('is saved as peft saves it', async () => {
    const { config, tensors } = await adapterFiles(await adapted(golden));
    const found = decodeSafetensors(tensors);
    const expected = decodeSafetensors(golden.adapterModel);
    expect(found.tensors).toEqual(expected.tensors);
    expect(found.metadata).toEqual({ format: 'pt' });
    const { target_modules: targets, ...own } = z
      .looseObject({ target_modules: z.array(z.string()) })
      .parse(config);
    expect(golden.adapterConfig).toMatchObject(own);
    expect(new Set(targets.map(lastName))).toEqual(
      new Set(golden.adapterConfig.target_modules.map(lastName)),
    );
  });
});

const lastName = (path: string): string => path.slice(path.lastIndexOf('.') + 1);

describe('a new adapter', () => {
  const options = { rank: 2, targetModules: ['up_proj'] };

  test.each([false, true])('changes nothing at first, with DoRA: %s', async (useDora) => {
    const model = new SmallLanguage();
    const ids = tokens('ids', [2, 4], 12);
    const before = await model.forward(ids).data();
    addLora(model, { ...options, useDora });
    expectClose(await model.forward(ids).data(), [...before].map(Number));
  });

  test('begins with the A of a new torch.nn.Linear, and with a B of zeros', async () => {
    const model = addLora(new SmallLanguage(), { ...options, generator: new Generator(3) });
    const linear = new nn.Linear(8, 2, { bias: false, generator: new Generator(3) });
    const state = new Map(model.namedParameters());
    const a = state.get('layers.0.up_proj.lora_A.weight') ?? expect.fail();
    const b = state.get('layers.0.up_proj.lora_B.weight') ?? expect.fail();
    expectClose(await a.data(), [...(await linear.weight.data())].map(Number));
    expect(b.shape).toEqual([16, 2]);
    expect([...(await b.data())].every((value) => value === 0)).toBe(true);
  });

  test('leaves tied weights tied, and the names of the state as they were', () => {
    const plain = new SmallLanguage();
    const model = addLora(new SmallLanguage(), { ...options, targetModules: ['lm_head'] });
    expect(model.lm_head.constructor.name).toBe('LoraLinear');
    expect(model.lm_head.weight).toBe(model.embed_tokens.weight);
    const names = model.namedState().map(([name]) => name);
    expect(names.filter((name) => !name.includes('lora_'))).toEqual(
      plain.namedState().map(([name]) => name),
    );
  });

  test('is in layers of lists and dicts, too, and in every place of a layer that occurs twice', () => {
    class Mixed extends nn.Module {
      readonly list = new nn.Sequential(new nn.Linear(2, 2), new nn.ReLU());
      readonly dict = new nn.ModuleDict({ first: new nn.Linear(2, 3) });
      readonly again = this.list.children[0] ?? expect.fail();
    }
    const model = addLora(new Mixed(), { targetModules: ['0', 'first'] });
    expect(model.again).toBe(model.list.at(0));
    expect(model.namedParameters().map(([name]) => name)).toEqual([
      'list.0.weight',
      'list.0.bias',
      'list.0.lora_A.weight',
      'list.0.lora_B.weight',
      'dict.first.weight',
      'dict.first.bias',
      'dict.first.lora_A.weight',
      'dict.first.lora_B.weight',
    ]);
  });

  test("is in all linear layers but the head with 'all-linear'", () => {
    const model = addLora(new SmallLanguage(), { targetModules: 'all-linear' });
    const layers = model.namedParameters().filter(([name]) => name.includes('lora_A'));
    expect(layers).toHaveLength(8);
    expect(layers.map(([name]) => name)).not.toContain('lm_head.lora_A.weight');
  });

  test('drops elements of its input in training only', async () => {
    const model = addLora(new SmallLanguage(), { ...options, dropout: 0.5 });
    for (const [name, parameter] of model.namedParameters()) {
      if (name.includes('lora_B')) await model.loadStateDict(onesOf(name, parameter), anyNames);
    }
    const ids = tokens('ids', [2, 4], 12);
    const run = async (): Promise<readonly number[]> =>
      [...(await model.forward(ids).data())].map(Number);
    expect(await run()).not.toEqual(await run());
    model.eval();
    expect(await run()).toEqual(await run());
  });

  test('trains modulesToSave as a whole, and saves them', async () => {
    const model = addLora(new SmallLanguage(), { ...options, modulesToSave: ['layers.3.norm'] });
    const { config, tensors } = await adapterFiles(model);
    expect(config).toMatchObject({ modules_to_save: ['layers.3.norm'] });
    expect(Object.keys(decodeSafetensors(tensors).tensors)).toContain(
      'base_model.model.layers.3.norm.bias',
    );
  });
});

const anyNames = { strict: false };

function onesOf(name: string, { shape, numel }: Tensor): Record<string, HostArray> {
  const bytes = new Uint8Array(new Float32Array(numel).fill(1).buffer);
  return { [name]: { dtype: 'f32', shape, bytes } };
}

describe('what cannot be is refused before anything changes', () => {
  const wrong: readonly (readonly [string, LoraOptions, string])[] = [
    [
      'a name that no layer has',
      { targetModules: ['up_prj'] },
      "LoRA in the layers 'up_prj' of SmallLanguage: no module of this name; its linear layers are up_proj, down_proj, lm_head. Write 'up_proj', or another of these names",
    ],
    ['no names', { targetModules: [] }, 'its linear layers are up_proj, down_proj, lm_head'],
    [
      'a layer that is not linear',
      { targetModules: ['embed_tokens'] },
      "'embed_tokens' is a Embedding, and no linear layer",
    ],
    ['rank 0', { targetModules: ['up_proj'], rank: 0 }, 'addLora with rank: 0'],
    [
      'a module to save that is not there',
      { targetModules: ['up_proj'], modulesToSave: ['score'] },
      "LoRA with 'score' in modulesToSave",
    ],
  ];

  test.each(wrong)('%s', (_, options, message) => {
    const model = new SmallLanguage();
    expect(() => addLora(model, options)).toThrow(message);
    expect(model.parameters().every(({ requiresGrad }) => requiresGrad)).toBe(true);
    expect(model.namedParameters().some(([name]) => name.includes('lora'))).toBe(false);
  });

  test('an adapter in a model that has one', () => {
    const model = addLora(new SmallLanguage(), { targetModules: ['up_proj'] });
    expect(() => addLora(model, { targetModules: ['down_proj'] })).toThrow(
      "'layers.0.up_proj' has an adapter already. Call mergeLora and removeLora first",
    );
  });

  test('a model without adapters, and one that is merged already', async () => {
    await expect(mergeLora(new SmallLanguage())).rejects.toThrow('no layer with an adapter');
    const model = addLora(new SmallLanguage(), { targetModules: ['up_proj'] });
    await expect(unmergeLora(model)).rejects.toThrow('adapters that are apart');
    await mergeLora(model);
    await expect(mergeLora(model)).rejects.toThrow('adapters that are merged already');
  });

  test('merging into a weight that another module shares', async () => {
    const model = addLora(new SmallLanguage(), { targetModules: ['lm_head'] });
    await expect(mergeLora(model)).rejects.toThrow(
      "its weight is that of 'embed_tokens.weight', which would change, too",
    );
  });

  test('an adapter of another model', async () => {
    const [gpt2, , llama] = goldenCases();
    const model = await baseOf(llama);
    await expect(loadAdapter(model, filesOf(gpt2))).rejects.toThrow(
      'to load an adapter into LlamaForCausalLM: transformer.h.0.attn.c_attn (no module of this name)',
    );
    expect(model.parameters().every(({ requiresGrad }) => requiresGrad)).toBe(true);
  });

  test('an adapter for layers of other sizes', async () => {
    const [, , llama] = goldenCases();
    const config = { ...llama.config, intermediate_size: 20, hidden_size: 32, head_dim: 4 };
    const model = await baseOf({ ...llama, config });
    await expect(loadAdapter(model, filesOf(llama))).rejects.toThrow(
      'model.layers.0.self_attn.q_proj.lora_A.weight (shape [2, 16], not [2, 32])',
    );
  });

  test('an adapter that lacks a matrix, or has one more', async () => {
    const [, , llama] = goldenCases();
    const { tensors } = decodeSafetensors(llama.adapterModel);
    const prefix = 'base_model.model.model.layers.0.self_attn.q_proj.lora_';
    const { [`${prefix}B.weight`]: b, ...rest } = tensors;
    const more = { ...rest, [`${prefix}C.weight`]: b ?? expect.fail() };
    await expect(
      loadAdapter(await baseOf(llama), { ...filesOf(llama), tensors: encodeSafetensors(more) }),
    ).rejects.toThrow(
      'q_proj.lora_C.weight (not in the model), model.layers.0.self_attn.q_proj.lora_B.weight (not in the file)',
    );
  });

  test.each([
    ['peft_type', 'IA3'],
    ['bias', 'all'],
    ['init_lora_weights', 'pissa'],
    ['alpha_pattern', { '(a+)+$': 3 }],
    ['use_qalora', true],
    ['r', -1],
  ])('an adapter_config.json with %s %j', async (key, value) => {
    const [, , llama] = goldenCases();
    const config = { ...llama.adapterConfig, [key]: value };
    await expect(loadAdapter(await baseOf(llama), { ...filesOf(llama), config })).rejects.toThrow(
      `an adapter with '${key}' ${JSON.stringify(value)} in adapter_config.json`,
    );
  });

  test('a file that is cut off', async () => {
    const [, , llama] = goldenCases();
    const tensors = llama.adapterModel.subarray(0, -4);
    await expect(loadAdapter(await baseOf(llama), { ...filesOf(llama), tensors })).rejects.toThrow(
      'Reading adapter_model.safetensors',
    );
  });
});

function goldenCases(): [Golden, Golden, Golden] {
  const [first, second, third] = cases;
  return [first ?? expect.fail(), second ?? expect.fail(), third ?? expect.fail()];
}

function expectClose(
  found: ArrayLike<number | bigint>,
  expected: readonly number[] | undefined,
  name = '',
): void {
  expect(found.length, name).toBe(expected?.length);
  for (const [i, value] of (expected ?? []).entries()) {
    expect(Math.abs(Number(found[i]) - value), `${name}[${i}] = ${value}`).toBeLessThan(
      1e-4 * Math.max(1, Math.abs(value)),
    );
  }
}
