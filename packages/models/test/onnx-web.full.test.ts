import type { Tensor } from '@shardwise/core';
import {
  BertForSequenceClassification,
  exportOnnx,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  type PretrainedModel,
  ResNetForImageClassification,
} from '@shardwise/models';
import { env, InferenceSession } from 'onnxruntime-web';
import { beforeAll, describe, test } from 'vitest';
import { oneRank } from './decoder-cases.ts';
import { fill, tokens } from './golden/formulas.ts';
import { expectSame, runSession, waves } from './onnx-runs.ts';

beforeAll(oneRank);
// Most pages have one thread. More would need a page that is isolated from other sites.
env.wasm.numThreads = 1;

const encoder = {
  vocabSize: 48,
  hiddenSize: 16,
  intermediateSize: 24,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  maxPositionEmbeddings: 32,
} as const;
const labels = { id2label: { 0: 'a', 1: 'b', 2: 'c' } } as const;
const texts = (batch: number, length: number): Tensor => tokens(`${length}`, [batch, length]);

const cases: readonly (readonly [
  name: string,
  make: () => PretrainedModel,
  inputs: (batch: number, length: number) => Tensor,
])[] = [
  [
    'GPT-2',
    () => new GPT2LMHeadModel({ vocabSize: 48, nPositions: 32, nEmbd: 16, nLayer: 2, nHead: 4 }),
    texts,
  ],
  ['a Llama', () => new LlamaForCausalLM({ ...encoder, numKeyValueHeads: 2 }), texts],
  ['a BERT', () => new BertForSequenceClassification({ ...encoder, ...labels }), texts],
  [
    'a ResNet',
    () =>
      new ResNetForImageClassification({
        embeddingSize: 8,
        hiddenSizes: [8, 16],
        depths: [1, 2],
        layerType: 'basic',
        ...labels,
      }),
    (batch, length) => waves([batch, 3, 16, 16], length),
  ],
];

describe.each(cases)('the file of %s, in onnxruntime-web', (_, make, inputs) => {
  test('computes the outputs of batches and rows of any size', async () => {
    const model = make();
    await fill(model);
    model.eval();
    const file = await exportOnnx(model, [inputs(1, 7)]);
    for (const [batch, length] of [
      [2, 7],
      [1, 3],
      [5, 11],
    ] as const) {
      const given = inputs(batch, length);
      const name = given.dtype === 'i32' ? 'input_ids' : 'images';
      const session = await InferenceSession.create(file, { executionProviders: ['wasm'] });
      const { logits } = await runSession(session, { [name]: given });
      await expectSame(logits, model.forward(given));
    }
  });
});
