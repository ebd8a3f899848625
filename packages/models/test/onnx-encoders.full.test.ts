import { readFileSync } from 'node:fs';
import { fromData, type Tensor } from '@shardwise/core';
import {
  architectures,
  BertForSequenceClassification,
  exportOnnx,
  modelFromConfig,
  type PretrainedModel,
} from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { oneRank } from './decoder-cases.ts';
import { fill, tokens } from './golden/formulas.ts';
import { expectSame, runFile, waves } from './onnx-runs.ts';

beforeAll(oneRank);

const cases = z
  .array(z.object({ name: z.string(), config: z.looseObject({}) }))
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/encoders.json`, 'utf8')));

/** One of each kind of head, of which the others differ in their losses alone. */
const KINDS = new Set([
  'BERT',
  'BERT as a masked language model',
  'BERT for tokens',
  'RoBERTa for rows',
  'ViT for images',
  'ResNet of basic layers',
  'ResNet of bottlenecks',
]);

async function build(config: unknown): Promise<PretrainedModel> {
  const model = modelFromConfig<PretrainedModel>(config, architectures);
  await fill(model);
  return model.eval();
}

describe.each(cases.filter(({ name }) => KINDS.has(name)))('the file of $name', ({ config }) => {
  test('computes the outputs of batches of any size', async () => {
    const model = await build(config);
    const isOfImages = ['vit', 'resnet'].includes(String(config['model_type']));
    const inputs = (batch: number, length: number): Tensor =>
      isOfImages ? waves([batch, 3, 8, 8], length) : tokens(`${length}`, [batch, length]);
    const file = await exportOnnx(model, [inputs(1, 7)]);
    for (const [batch, length] of [
      [2, 7],
      [1, 3],
      [5, 11],
    ] as const) {
      const given = inputs(batch, length);
      const found = await runFile(file, { [isOfImages ? 'images' : 'input_ids']: given });
      const hasHead = model.namedChildren().some(([name]) => name === model.baseModelPrefix);
      const output = found[hasHead ? 'logits' : 'last_hidden_state'];
      await expectSame(output, model.forward(given));
    }
  });
});

test('a file of BERT takes a mask and the segments of tokens', async () => {
  const found = cases.find(({ config }) =>
    String(config['architectures']).includes('BertForSequenceClassification'),
  );
  const model = await build(found?.config);
  if (!(model instanceof BertForSequenceClassification)) throw new Error('another model');
  const rows = (values: readonly number[]): Tensor =>
    fromData(Int32Array.from(values), [2, 4], 'i32');
  const ids = tokens('sample', [2, 4]);
  const call = {
    attentionMask: rows([1, 1, 1, 0, 1, 1, 0, 0]),
    tokenTypeIds: rows([0, 0, 1, 1, 0, 1, 1, 1]),
  };
  const file = await exportOnnx(model, [ids, call]);
  const { logits } = await runFile(file, {
    input_ids: ids,
    attention_mask: call.attentionMask,
    token_type_ids: call.tokenTypeIds,
  });
  await expectSame(logits, model.forward(ids, call));
  expect(logits?.dims[0]).toBe(2);
});
