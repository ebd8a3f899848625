import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { fromData, LineMesh, noGrad, optim, setRank, type Tensor } from '@shardwise/core';
import { architectures, modelFromConfig, type PretrainedModel } from '@shardwise/models';
import { joinThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { fill, summary, tokens } from './golden/formulas.ts';

const numbers = z.string().transform((text) => text.split(' ').map(Number));
const cases = z
  .array(
    z.object({
      name: z.string(),
      architecture: z.string(),
      config: z.record(z.string(), z.unknown()),
      length: z.number(),
      lastLogits: numbers,
      logits: numbers,
      loss: z.number(),
      gradients: z.record(z.string(), numbers),
      losses: numbers,
      text: z.array(z.number()),
    }),
  )
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/decoders.json`, 'utf8')));

const ROWS = 2;
const LENGTH = 12;
const VOCABULARY = 48;

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

describe.each(cases)('$name', (golden) => {
  const build = async (): Promise<PretrainedModel> => {
    const model = modelFromConfig(
      { ...golden.config, architectures: [golden.architecture] },
      architectures,
    );
    await fill(model);
    return model.eval();
  };

  test('has the logits, the loss and the gradients of transformers', async () => {
    const model = await build();
    const ids = tokens('ids', [ROWS, golden.length]);
    const logits = model.forward(ids);
    expectClose(await logits.select(1, -1).flatten().data(), golden.lastLogits);
    expectClose(summary('logits', await logits.data()), golden.logits);
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
    const model = await build();
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
    const model = await build();
    const text = golden.text.slice(0, 5);
    while (text.length < golden.text.length) {
      const ids = fromData(Int32Array.from(text), [1, text.length], 'i32');
      text.push(await noGrad(() => nextToken(model.forward(ids))).item());
    }
    expect(text).toEqual(golden.text);
  });

  test('writes back the config that it read', async () => {
    const written = (await build()).configJson();
    for (const [key, value] of Object.entries(golden.config)) {
      expect(written[key], key).toEqual(value);
    }
    expect(written['architectures']).toEqual([golden.architecture]);
  });
});

/** The most likely next token of the first row. Shape: logits [B, T, V] -> []. */
function nextToken(logits: Tensor): Tensor {
  return logits.select(1, -1).select(0, 0).slice(0, 0, VOCABULARY).argMax();
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
