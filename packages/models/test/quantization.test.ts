import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import {
  activationBytes,
  fromData,
  LineMesh,
  nn,
  optim,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  adapterFiles,
  addLora,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  loadAdapter,
  mergeLora,
  type PretrainedModel,
  quantizeModel,
} from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import {
  colwiseParallel,
  memory,
  planFor,
  type ParallelStyle,
  rowwiseParallel,
  tensorParallel,
} from '@shardwise/strategies';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { fill, summary, tokens, uniform } from './golden/formulas.ts';
import { SmallLanguage } from './small-language.ts';

const numbers = z.string().transform((text) => text.split(' ').map(Number));
const golden = z
  .object({
    nf4: numbers,
    cases: z.array(
      z.object({
        name: z.string(),
        shape: z.tuple([z.number(), z.number()]),
        bytes: numbers,
        scales: numbers,
        mean: z.number(),
        weight: numbers,
        product: numbers,
      }),
    ),
  })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/quantization.json`, 'utf8')));

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

class OneLayer extends nn.Module {
  readonly layer: nn.Linear;

  constructor(name: string, [outFeatures, inFeatures]: readonly [number, number]) {
    super();
    this.layer = new nn.Linear(inFeatures, outFeatures, { bias: false });
    const values = uniform(name, outFeatures * inFeatures);
    this.layer.weight = new nn.Parameter(values, [outFeatures, inFeatures]);
  }

  forward(x: Tensor): Tensor {
    return this.layer.forward(x);
  }
}

describe.each(golden.cases)(
  'NF4 with double quantization: $name',
  ({ name, shape, ...expected }) => {
    test('keeps the bytes and scales of the formulas, and computes with their numbers', async () => {
      const model = await quantizeModel(new OneLayer(name, shape), { targetModules: ['layer'] });
      const state = new Map(model.namedParameters());
      const data = async (own: string): Promise<readonly number[]> =>
        [...((await state.get(`layer.${own}`)?.data()) ?? [])].map(Number);
      expectClose(summary('bytes', await data('weight')), expected.bytes);
      expectClose(await data('nestedAbsmax'), expected.scales);
      expectClose(await data('nestedMean'), [expected.mean]);
      const x = fromData(uniform('x', 2 * shape[1]), [2, shape[1]], 'f32');
      expectClose(summary('product', await model.forward(x).data()), expected.product);
    });

    test.each([
      [4, 0.11],
      [8, 0.0021],
    ] as const)('in %d bits, no element is further off than %d', async (bits, most) => {
      const options = { bits, doubleQuantization: false, targetModules: ['layer'] };
      const model = await quantizeModel(new OneLayer(name, shape), options);
      const [rows, columns] = shape;
      const identity = Float32Array.from({ length: columns ** 2 }, (_, i) =>
        Number(i % (columns + 1) === 0),
      );
      const found = await model.forward(fromData(identity, [columns, columns], 'f32')).data();
      const weight = uniform(name, rows * columns);
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) {
          const value = Number(found[column * rows + row]);
          expect(Math.abs(value - (weight[row * columns + column] ?? 0))).toBeLessThan(most);
        }
      }
    });
  },
);

const config = {
  vocabSize: 48,
  hiddenSize: 64,
  intermediateSize: 128,
  numHiddenLayers: 3,
  numAttentionHeads: 4,
  maxPositionEmbeddings: 32,
};
/** Rows of 48 and 96 elements are no whole blocks. */
const narrow = { ...config, hiddenSize: 48, intermediateSize: 96 };
const gpt2 = { vocabSize: 48, nEmbd: 24, nLayer: 1, nHead: 2, nPositions: 16 };
/** The elements of the weights of a layer: q, k, v, o, gate, up and down. */
const elements = 3 * (4 * 64 * 64 + 3 * 64 * 128);

async function llama(): Promise<LlamaForCausalLM> {
  const model = new LlamaForCausalLM(config);
  await fill(model);
  return model;
}

describe('a quantized model with adapters', () => {
  test.each([4, 8] as const)('keeps no weight in f32, with %d bits', async (bits) => {
    const plain = await llama();
    const ids = tokens('ids', [2, 8]);
    const before = activationBytes(
      addLora(await llama(), { targetModules: 'all-linear' }).forward(ids, { labels: ids }),
    );
    // Parameters are on the device from their first use on.
    await plain.forward(ids).data();
    const bytesBefore = memory({ model: plain }).parameterBytes;
    await quantizeModel(plain, { bits });
    await plain.forward(ids).data();
    const blocks = elements / 64;
    const layers = 21;
    const packed = (elements * bits) / 8 + blocks + layers * 8;
    const rest = (2 * 48 * 64 + 7 * 64) * 4;
    expect(memory({ model: plain }).parameterBytes).toBe(packed + rest);
    expect(bytesBefore).toBe(elements * 4 + rest);
    addLora(plain, { targetModules: 'all-linear' });
    const loss = plain.forward(ids, { labels: ids });
    // The backward pass reads no weight that was made in the forward pass: it makes each again.
    expect(activationBytes(loss)).toBeLessThanOrEqual(before);
  });

  test('trains the adapters, and nothing else', async () => {
    const model = addLora(await quantizeModel(await llama()), {
      rank: 4,
      targetModules: 'all-linear',
    });
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.02 });
    const ids = tokens('ids', [2, 8]);
    const losses: number[] = [];
    for (let step = 0; step < 12; step++) {
      optimizer.zeroGrad();
      const loss = model.forward(ids, { labels: ids });
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    expect(losses.at(-1)).toBeLessThan((losses[0] ?? 0) * 0.6);
    const { optimizerBytes, gradientBytes } = memory({ model, optimizer });
    const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
    const bytes = trained.reduce((sum, { numel }) => sum + numel * 4, 0);
    expect(trained).toHaveLength(2 * 21);
    expect(optimizerBytes).toBe(2 * bytes);
    expect(gradientBytes).toBe(bytes);
  });

  test('has the gradients of a model with the numbers of the quantized weights', async () => {
    const quantized = await quantizeModel(await llama());
    const plain = await llama();
    for (const [path, module] of quantized.namedModules()) {
      if (!('weightRows' in module) || typeof module.weightRows !== 'function') continue;
      const rows: Tensor = module.weightRows(null);
      const target = new Map(plain.namedParameters()).get(`${path}.weight`) ?? expect.fail(path);
      target.assign(rows.detach());
    }
    const ids = tokens('ids', [2, 8]);
    const results: (readonly number[])[] = [];
    for (const model of [quantized, plain]) {
      addLora(model, { rank: 2, useDora: true, targetModules: ['q_proj', 'down_proj'] });
      for (const [name, parameter] of model.namedParameters()) {
        if (!name.includes('lora_')) continue;
        const values = uniform(name, parameter.numel).map((value) => value * 0.3 + 0.5);
        parameter.assign(fromData(values, parameter.shape, 'f32'));
      }
      const loss = model.forward(ids, { labels: ids });
      loss.backward();
      const gradients = model.namedParameters().filter(([, { grad }]) => grad !== null);
      const own = [await loss.item()];
      for (const [name, { grad }] of gradients)
        own.push(...summary(name, (await grad?.data()) ?? []));
      results.push(own);
    }
    expectClose(results[0] ?? [], results[1]);
    expect(results[0]).toHaveLength(1 + 2 * 3 * 2 * 3);
  });

  test('saves and loads its adapter, as for the model in f32', async () => {
    const options = { rank: 2, targetModules: ['c_attn', 'c_fc'] };
    const model = addLora(await quantizeModel(new GPT2LMHeadModel(gpt2)), options);
    const files = await adapterFiles(model);
    await loadAdapter(new GPT2LMHeadModel(gpt2), files);
    await loadAdapter(await quantizeModel(new GPT2LMHeadModel(gpt2)), files);
  });
});

describe('what cannot be is refused', () => {
  test('merging into weights of few bits', async () => {
    const model = addLora(await quantizeModel(await llama()), { targetModules: ['q_proj'] });
    await expect(mergeLora(model)).rejects.toThrow('a weight that is kept in few bits');
  });

  test('saving weights of few bits as a model', async () => {
    const model = await quantizeModel(await llama());
    await expect(savePretrained(model, 'not-made')).rejects.toThrow(
      /'model\.layers\.0\.self_attn\.q_proj', whose weight is kept in blocks/,
    );
  });

  test('a weight that another module shares, and a layer that is quantized already', async () => {
    const model = new SmallLanguage();
    await expect(quantizeModel(model, { targetModules: ['lm_head'] })).rejects.toThrow(
      "its weight is that of 'embed_tokens.weight'",
    );
    await quantizeModel(model);
    await expect(quantizeModel(model)).rejects.toThrow('a layer that is quantized already');
  });

  test.each([
    ['Llama', 'q_proj', 'colwiseParallel', (): PretrainedModel => new LlamaForCausalLM(narrow)],
    ['Llama', 'down_proj', 'rowwiseParallel', (): PretrainedModel => new LlamaForCausalLM(narrow)],
    ['GPT-2', 'c_fc', 'colwiseParallel', (): PretrainedModel => new GPT2LMHeadModel(gpt2)],
    ['GPT-2', 'mlp.c_proj', 'rowwiseParallel', (): PretrainedModel => new GPT2LMHeadModel(gpt2)],
  ])('tensor parallelism of %s with few bits in its %s', async (_, layer, style, build) => {
    const model = await quantizeModel(build(), { targetModules: [layer] });
    const strategy = tensorParallel(undefined, { axis: 'dp' });
    const message = new RegExp(
      `${style}\\(\\) of the module '[^']*${layer}'.*in blocks of few bits \\(u8\\).*by fsdp\\(\\)`,
      's',
    );
    const error: unknown = expect.objectContaining({
      code: 'LAYOUT',
      message: expect.stringMatching(message),
    });
    expect(() => planFor(model, strategy)).toThrow(error);
    addLora(model, { targetModules: [layer] });
    expect(() => planFor(model, strategy)).toThrow(error);
  });

  test('rows of three blocks over two ranks', async () => {
    const model = await quantizeModel(new OneLayer('layer', [4, 192]), {
      targetModules: ['layer'],
    });
    const parameters = model
      .namedParameters()
      .map(([name, { shape, dtype, requiresGrad }]) => ({ name, shape, dtype, requiresGrad }));
    const layoutOf = (style: ParallelStyle, size: number, name: string): unknown => {
      const plan = tensorParallel({ layer: style }).plan({ parameters }, [{ name: 'tp', size }]);
      return plan.parameters.find((each) => each.name === name)?.parameter.dims;
    };
    expect(() => layoutOf(rowwiseParallel(), 2, 'layer.weight')).toThrow(
      /rowwiseParallel\(\) of the module 'layer' over 2 ranks.*rows of 3 blocks of 64/s,
    );
    expect(layoutOf(rowwiseParallel(), 3, 'layer.weight')).toEqual([[], ['tp'], []]);
    expect(layoutOf(colwiseParallel(), 2, 'layer.absmax')).toEqual([['tp'], []]);
  });

  test.each([NaN, Infinity])('a weight with %d', async (value) => {
    const model = new OneLayer('weight', [2, 64]);
    model.layer.weight = new nn.Parameter(Float32Array.of(...uniform('w', 127), value), [2, 64]);
    await expect(quantizeModel(model, { targetModules: ['layer'] })).rejects.toThrow(
      /'layer\.weight' in blocks of 4 bits.*a number that is (NaN|infinite)/s,
    );
  });

  test('layers that are not there, and layers that have adapters', async () => {
    const model = new SmallLanguage();
    await expect(quantizeModel(model, { targetModules: ['up_prj'] })).rejects.toThrow(
      "quantizeModel in the layers 'up_prj' of SmallLanguage",
    );
    addLora(model, { targetModules: ['up_proj'] });
    await expect(quantizeModel(model)).rejects.toThrow(
      /^quantizeModel in a model: .* has an adapter already\. Call quantizeModel before addLora/,
    );
  });

  test('three bits', async () => {
    await expect(
      // @ts-expect-error: only 4 and 8 bits exist.
      quantizeModel(new SmallLanguage(), { bits: 3 }),
    ).rejects.toThrow('bits: 3');
  });
});

function expectClose(
  found: ArrayLike<number>,
  expected: readonly number[] | undefined,
  name = '',
): void {
  expect(found.length, name).toBe(expected?.length);
  for (const [i, value] of (expected ?? []).entries()) {
    expect(Math.abs((found[i] ?? NaN) - value), `${name}[${i}] = ${value}`).toBeLessThan(
      1e-4 * Math.max(1, Math.abs(value)),
    );
  }
}
