import { readFileSync } from 'node:fs';
import { ConfigError, fromData, nn, optim, type Tensor, zeros } from '@shardwise/core';
import {
  architectures,
  BertModel,
  type EncoderCall,
  modelFromConfig,
  type PretrainedModel,
  type QuestionAnsweringCall,
  ResNetForImageClassification,
  RobertaModel,
  ViTModel,
} from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { expectClose, oneRank } from './decoder-cases.ts';
import { images, rowLabels, textOf, tokenLabels } from './golden/encoder-inputs.ts';
import { fill, summary } from './golden/formulas.ts';

const numbers = z.string().transform((text) => text.split(' ').map(Number));
const common = {
  name: z.string(),
  config: z.looseObject({ architectures: z.tuple([z.string()]) }),
  names: z.array(z.string()),
  output: numbers,
};
const withPooler = z.object({ ...common, pooled: numbers });
const withHead = z.object({
  ...common,
  gradients: z.record(z.string(), numbers),
  losses: numbers,
  running: z.record(z.string(), numbers),
  trained: numbers,
});
const json: unknown = JSON.parse(
  readFileSync(`${import.meta.dirname}/golden/encoders.json`, 'utf8'),
);
const cases = z.array(z.union([withHead, withPooler])).parse(json);
const [heads, poolers] = [
  cases.filter((each) => 'losses' in each),
  cases.filter((each) => 'pooled' in each),
];

type Inputs = readonly [inputs: Tensor, call: EncoderCall, targets: Targets];
type Targets = Pick<EncoderCall, 'labels'> | QuestionAnsweringCall;

beforeAll(oneRank);

async function build({ config }: (typeof cases)[number]): Promise<PretrainedModel> {
  const model = modelFromConfig(config, architectures);
  // fill() adds to initial values, which must not be random.
  if (model instanceof ResNetForImageClassification) model.classifier[1].bias?.assign(zeros([3]));
  await fill(model);
  return model;
}

/** The inputs of a case of tools/golden-encoders.py. */
async function inputsOf(name: string): Promise<Inputs> {
  const rows = fromData(Int32Array.from(rowLabels), [4], 'i32');
  if (name.startsWith('ViT')) return [images(8), {}, { labels: rows }];
  if (name.startsWith('ResNet')) return [images(32), {}, { labels: rows }];
  const isBert = name.startsWith('BERT');
  const { inputs, call } = await textOf(isBert ? 0 : 1);
  const { attentionMask, tokenTypeIds, labels } = call;
  const own = isBert ? { attentionMask, tokenTypeIds } : { attentionMask };
  if (name.endsWith('language model')) return [inputs, own, { labels }];
  if (name.endsWith('for tokens')) return [inputs, own, { labels: await tokenLabels() }];
  if (name.endsWith('for answers')) {
    const startPositions = fromData(Int32Array.of(1, 0, 4, 2), [4], 'i32');
    // The last one is beyond the row.
    const endPositions = fromData(Int32Array.of(3, 0, 4, 12), [4], 'i32');
    return [inputs, own, { startPositions, endPositions }];
  }
  if (name.endsWith('for numbers')) return [inputs, own, { labels: rows.to('f32') }];
  const isSeveral = name.endsWith('several labels of a row');
  return [inputs, own, { labels: isSeveral ? rows.oneHot(3).to('f32') : rows }];
}

describe.each(cases)('$name', (golden) => {
  test('has the names of the file that transformers writes', async () => {
    const model = await build(golden);
    const isTied = golden.config['tie_word_embeddings'] !== false;
    const shared = /^cls\.predictions\.decoder|^lm_head\.decoder/;
    const names = model.namedState().map(([name]) => name);
    expect(names.filter((name) => !isTied || !shared.test(name)).toSorted()).toEqual(golden.names);
  });

  test('returns what transformers returns', async () => {
    const model = (await build(golden)).eval();
    const [inputs, call] = await inputsOf(golden.name);
    const output = await model.forward(inputs, call).data();
    expectClose(summary('output', output), golden.output);
  });

  test('writes back the config that it read', async () => {
    const written = (await build(golden)).configJson();
    for (const [key, value] of Object.entries(golden.config)) {
      expect(written[key], key).toEqual(value);
    }
  });
});

describe.each(poolers)('$name', (golden) => {
  test('has one vector of each row, as transformers', async () => {
    const model = (await build(golden)).eval();
    const [inputs, call] = await inputsOf(golden.name);
    const isKnown =
      model instanceof BertModel || model instanceof RobertaModel || model instanceof ViTModel;
    if (!isKnown) throw new TypeError(`${golden.name} has no pooler`);
    expectClose(await model.pool(model.forward(inputs, call)).flatten().data(), golden.pooled);
  });
});

describe.each(heads)('$name', (golden) => {
  test('has the gradients, the losses and the statistics of PyTorch in training', async () => {
    const model = await build(golden);
    const [inputs, call, targets] = await inputsOf(golden.name);
    const optimizer = /^ResNet|for answers$/.test(golden.name)
      ? new optim.SGD(model.parameters(), { lr: 0.05, momentum: 0.9 })
      : new optim.AdamW(model.parameters(), { lr: 1e-3, weightDecay: 0.01 });
    const losses: number[] = [];
    for (const [step] of golden.losses.entries()) {
      const loss = model.forward(inputs, { ...call, ...targets });
      optimizer.zeroGrad();
      loss.backward();
      if (step === 0) {
        const trained = model.namedParameters().filter(([, { requiresGrad }]) => requiresGrad);
        expect(trained.map(([name]) => name).toSorted()).toEqual(
          Object.keys(golden.gradients).toSorted(),
        );
        for (const [name, { grad }] of trained) {
          expectClose(summary(name, (await grad?.data()) ?? []), golden.gradients[name], name);
        }
      }
      await optimizer.step();
      losses.push(await loss.item());
    }
    expectClose(losses, golden.losses);
    const buffers = new Map(model.namedBuffers());
    for (const [name, expected] of Object.entries(golden.running)) {
      expectClose(summary(name, (await buffers.get(name)?.data()) ?? []), expected, name);
    }
    const trained = await model.eval().forward(inputs, call).data();
    expectClose(summary('output', trained), golden.trained);
  });
});

test('The FLOPs of a token of a masked language model are those that nn.summary counts.', async () => {
  const golden = cases.find(({ name }) => name === 'BERT as a masked language model');
  if (golden === undefined) throw new RangeError('no such case');
  const model = (await build(golden)).eval();
  const [inputs] = await inputsOf(golden.name);
  const [rows = 0, length = 0] = inputs.shape;
  const { flops } = nn.summary(model, inputs);
  expect(model.flopsPerToken(length) * rows * length).toBe(flops);
});

test('A ResNet, which has no tokens, refuses to say what one costs.', () => {
  const model: PretrainedModel = new ResNetForImageClassification({
    hiddenSizes: [4],
    depths: [1],
  });
  expect(() => model.flopsPerToken(1)).toThrow(ConfigError);
});

test('What an encoder cannot do with a call is an error.', async () => {
  const golden = cases.find(({ name }) => name === 'BERT');
  if (golden === undefined) throw new RangeError('no such case');
  const model = await build(golden);
  const long = zeros([1, 15], 'i32');
  expect(() => model.forward(long)).toThrow('15 tokens');
  const cache = { attend: (_: number, query: Tensor) => query };
  expect(() => model.forward(zeros([1, 3], 'i32'), { cache })).toThrow('with a cache');
  const misspelled: object = { attention_mask: zeros([1, 3], 'i32') };
  expect(() => model.forward(zeros([1, 3], 'i32'), misspelled)).toThrow('attention_mask');
});

test('One position of an answer without the other is an error.', async () => {
  const golden = cases.find(({ name }) => name === 'BERT for answers');
  if (golden === undefined) throw new RangeError('no such case');
  const call: object = { startPositions: zeros([1], 'i32') };
  const model = await build(golden);
  expect(() => model.forward(zeros([1, 3], 'i32'), call)).toThrow('startPositions alone');
});

test('A config that an encoder cannot compute is an error that names the key.', () => {
  const bert = { model_type: 'bert', architectures: ['BertForMaskedLM'] };
  for (const [key, value] of [
    ['position_embedding_type', 'relative_key'],
    ['is_decoder', true],
    ['num_attention_heads', 5],
    ['hidden_act', 'unknown'],
  ] as const) {
    const build = (): unknown => modelFromConfig({ ...bert, [key]: value }, architectures);
    expect(build, key).toThrow(ConfigError);
    expect(build, key).toThrow(key);
  }
});
