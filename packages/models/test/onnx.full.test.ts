import { exportOnnx } from '@shardwise/models';
import { beforeAll, describe, test } from 'vitest';
import { build, decoderCases, oneRank } from './decoder-cases.ts';
import { tokens } from './golden/formulas.ts';
import { expectSame, runFile } from './onnx-runs.ts';

beforeAll(oneRank);

/** The cases that differ in what the graph contains, and not in numbers alone. */
const KINDS = new Set([
  'Qwen 2 with windows',
  'Qwen 3',
  'Mistral',
  'Mixtral',
  'Gemma 2',
  'Gemma 3',
  'Llama with tied embeddings, biases and wide heads',
  'Llama with dynamic scaling, beyond its length',
  'Llama with yarn scaling and its settings',
]);

describe.each(decoderCases.filter(({ name }) => KINDS.has(name)))('the file of $name', (golden) => {
  test('computes the logits of rows of any length, also those within the window', async () => {
    const model = await build(golden);
    const sequence = { name: 'sequence', min: 8, max: 64 };
    const file = await exportOnnx(model, [tokens('sample', [2, golden.length])], {
      dynamicAxes: { input_ids: { 0: 'batch', 1: sequence } },
    });
    for (const [batch, length] of [
      [1, 1],
      [2, golden.length],
      [1, 9],
      [3, 30],
    ] as const) {
      const inputIds = tokens(`${length}`, [batch, length]);
      const { logits } = await runFile(file, { input_ids: inputIds });
      await expectSame(logits, model.forward(inputIds));
    }
  });
});

test('a file of rows beyond the window has rows of any length beyond it', async () => {
  const golden = decoderCases.find(({ name }) => name === 'Mistral');
  if (golden === undefined) throw new Error('no such case');
  const model = await build(golden);
  const axes = { 0: 'batch', 1: { name: 'sequence', min: 8, max: 400 } };
  const file = await exportOnnx(model, [tokens('sample', [2, 300])], {
    dynamicAxes: { input_ids: axes },
  });
  for (const length of [8, 300, 400]) {
    const inputIds = tokens('long', [3, length]);
    const { logits } = await runFile(file, { input_ids: inputIds });
    await expectSame(logits, model.forward(inputIds));
  }
});
