import { fromData, noGrad, optim } from '@shardwise/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { build, decoderCases, expectClose, LENGTH, oneRank, ROWS } from './decoder-cases.ts';
import { summary, tokens } from './golden/formulas.ts';

beforeAll(oneRank);

describe.each(decoderCases.filter((each) => each.paddedLoss !== undefined))('$name', (golden) => {
  test('has the loss of transformers for rows with padding, which no expert counts', async () => {
    const model = await build(golden);
    const ids = tokens('ids', [ROWS, golden.length]);
    const last = { first: (ROWS - 1) * golden.length + 9, end: ROWS * golden.length };
    const labels = Int32Array.from(await ids.data(), Number).fill(-100, last.first, last.end);
    const mask = new Int32Array(ids.numel).fill(1).fill(0, last.first, last.end);
    const [attentionMask, own] = [mask, labels].map((each) => fromData(each, ids.shape, 'i32'));
    if (attentionMask === undefined || own === undefined) throw new RangeError();
    const loss = model.forward(ids, { labels: own, attentionMask });
    expectClose([await loss.item()], [golden.paddedLoss ?? Number.NaN]);
  });
});

describe.each(decoderCases)('$name', (golden) => {
  test('has the loss and the gradients of transformers', async () => {
    const model = await build(golden);
    const ids = tokens('ids', [ROWS, golden.length]);
    const values = Int32Array.from(await ids.data(), Number).fill(-100, 0, 3);
    const loss = model.forward(ids, { labels: fromData(values, ids.shape, 'i32') });
    loss.backward();
    expectClose([await loss.item()], [golden.loss]);
    const names = model.namedParameters().map(([name]) => name);
    expect(names.toSorted()).toEqual(Object.keys(golden.gradients).toSorted());
    for (const [name, { grad }] of model.namedParameters()) {
      expectClose(summary(name, (await grad?.data()) ?? []), golden.gradients[name], name);
    }
  });

  test('trains by AdamW as in PyTorch', async () => {
    const model = await build(golden);
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
  });

  test('continues a text as transformers does', async () => {
    const model = await build(golden);
    const text = golden.text.slice(0, 5);
    while (text.length < golden.text.length) {
      // Tokens that follow do not change the logits of those before, so one length is enough.
      const ids = new Int32Array(golden.text.length);
      ids.set(text);
      const logits = noGrad(() => model.forward(fromData(ids, [1, ids.length], 'i32')));
      const values = Array.from(await logits.flatten().data(), Number);
      const vocabulary = values.length / ids.length;
      const next = values.slice((text.length - 1) * vocabulary, text.length * vocabulary);
      text.push(next.indexOf(Math.max(...next)));
    }
    expect(text).toEqual(golden.text);
  });
});
