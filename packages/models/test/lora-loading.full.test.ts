import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, noGrad, setRank } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { addLora } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { adapterOf, adapters, ids, loaded, type LoadTask } from './ranks/lora-loading.ts';
import { models, type StrategyName } from './ranks/pretrained.ts';

const timeoutMs = 300_000;
const RANKS = 2;
const strategies: StrategyName[] = ['ddp', 'zero-3', 'fsdp', 'tp', 'pp'];

let directory = '';
const folders = { f32: '', bf16: '' };
let weights = 0;

beforeAll(async () => {
  setRank({ device: await cpu() });
  manualSeed(0);
  directory = await mkdtemp(join(tmpdir(), 'shardwise-lora-loading-'));
  const model = models.llama();
  weights = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
  for (const dtype of ['f32', 'bf16'] as const) {
    folders[dtype] = join(directory, dtype);
    await savePretrained(model, folders[dtype], { maxShardBytes: 100_000, dtype });
  }
});
afterAll(() => rm(directory, { recursive: true, force: true }));

describe.each([
  ['LoRA', 'f32'],
  ['DoRA', 'f32'],
  ['LoRA', 'bf16'],
] as const)('a model that is loaded with %s, in %s', (adapter, dtype) => {
  const [folder, lora] = [() => folders[dtype], adapters[adapter]];

  it('is that of addLora after loading, on one rank', async () => {
    manualSeed(1);
    const expected = addLora(await fromPretrained(folder(), { dtype }), lora);
    manualSeed(1);
    const model = await fromPretrained(folder(), { dtype, lora });
    expectSameAdapter(await adapterOf(model), await adapterOf(expected));
    const trained = (of: typeof model): readonly string[] =>
      of.namedParameters().flatMap(([name, { requiresGrad }]) => (requiresGrad ? name : []));
    expect(trained(model)).toEqual(trained(expected));
    const logits = await model.eval().forward(ids()).data();
    expectClose(logits, await expected.eval().forward(ids()).data(), 1e-5);
  });

  it(
    'has on each rank of every strategy its part of the weights, and reads no more',
    async () => {
      const data: LoadTask = { folder: folder(), adapter, dtype, strategies };
      const world = createThreadsWorld({ size: RANKS, arenaBytes: 64 * 1024 * 1024 });
      const url = new URL('./ranks/lora-loading.ts', import.meta.url);
      const ranks = z
        .array(z.record(z.string(), loaded))
        .length(RANKS)
        .parse(await spawnRanks(RANKS, url, { world, data, timeoutMs }));

      manualSeed(1);
      const alone = await fromPretrained(folder(), { dtype, lora });
      const expected = await adapterOf(alone);
      const logits = await noGrad(() => alone.eval().forward(ids()))
        .to('f32')
        .data();
      const headerBytes = 2 * 4096 * (await readdir(folder())).length;
      const weightBytes = weights * (dtype === 'f32' ? 4 : 2);
      for (const name of strategies) {
        const found = ranks.map((rank) => rank[name] ?? expect.fail(name));
        for (const { readBytes, frozenBytes, trainedDtypes, ...rank } of found) {
          expect(readBytes, name).toBeLessThan(frozenBytes + headerBytes);
          expect(trainedDtypes).toEqual(['f32']);
          expectSameAdapter(rank.adapter, expected);
          if (name !== 'pp') expectClose(rank.logits, logits, dtype === 'f32' ? 1e-4 : 0.02);
        }
        if (name === 'ddp') continue;
        const total = found.reduce((sum, { readBytes }) => sum + readBytes, 0);
        expect(total, name).toBeLessThan(1.1 * weightBytes + RANKS * headerBytes);
      }
    },
    timeoutMs + 20_000,
  );
});

it('draws adapters from a generator of their own as addLora does, with a strategy, too', async () => {
  const options = { ...adapters.LoRA, generator: new Generator(5) };
  const expected = addLora(await fromPretrained(folders.f32), options);
  const model = await fromPretrained(folders.f32, {
    lora: { ...adapters.LoRA, generator: new Generator(5) },
  });
  expect(await adapterOf(model)).toEqual(await adapterOf(expected));
});

it('refuses options of adapters before weights are read', async () => {
  const lora = { ...adapters.LoRA, rank: 0 };
  await expect(fromPretrained(folders.f32, { lora })).rejects.toThrow(
    'fromPretrained with lora with rank: 0',
  );
});

function expectSameAdapter(
  found: Readonly<Record<string, readonly number[]>>,
  expected: Readonly<Record<string, readonly number[]>>,
): void {
  expect(Object.keys(found)).toEqual(Object.keys(expected));
  for (const [name, values] of Object.entries(expected)) expectClose(found[name], values, 1e-5);
}

function expectClose(
  found: ArrayLike<number | bigint> | undefined,
  expected: ArrayLike<number | bigint>,
  tolerance: number,
): void {
  expect(found?.length).toBe(expected.length);
  for (const [at, value] of Array.from(expected, Number).entries()) {
    const difference = Math.abs(Number(found?.[at] ?? NaN) - value);
    expect(difference).toBeLessThan(tolerance * Math.max(1, Math.abs(value)));
  }
}
