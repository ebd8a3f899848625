import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, noGrad, setRank } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { addLora, GPT2LMHeadModel, type PretrainedModel, quantizeModel } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { onRanks } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import {
  adapterOf,
  adapters,
  blocks,
  blocksIn,
  ids,
  loadEach,
  type LoadTask,
} from './ranks/lora-loading.ts';
import { counting, models, partBytesOf, type StrategyName } from './ranks/pretrained.ts';

const RANKS = 2;
const all: readonly StrategyName[] = ['ddp', 'zero-3', 'fsdp', 'tp', 'pp'];

/** Tests models that are loaded with adapters: each kind under all strategies, or under a part of them. */
export function testLoraLoading({ hasAll }: { readonly hasAll: boolean }): void {
  const strategiesOf = (row: number, rows: number): readonly StrategyName[] =>
    hasAll ? all : someForRow({ row, rows }, all, 1);

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
    ['LoRA', 'f32', 0],
    ['DoRA', 'f32', 1],
    ['LoRA', 'bf16', 2],
  ] as const)('a model that is loaded with %s, in %s', (adapter, dtype, row) => {
    const strategies = strategiesOf(row, 3);
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

    it('has on each rank of every strategy its part of the weights, and reads no more', async () => {
      const data: LoadTask = { folder: folder(), adapter, dtype, strategies };
      const ranks = await onRanks(RANKS, (place) => loadEach(place, data), onCpu);

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
    });
  });

  describe.each([
    ['DoRA', 'f32', 'int8', 0],
    ['LoRA', 'bf16', 'nf4', 1],
  ] as const)(
    '%s of a model that is quantized as it is read, %s as %s',
    (adapter, dtype, quantize, row) => {
      const strategies = strategiesOf(row, 2);
      const alone = async (): Promise<PretrainedModel> => {
        manualSeed(1);
        const whole = await fromPretrained(folders[dtype], { dtype });
        return addLora(await quantizeModel(whole, blocks[quantize]), adapters[adapter]);
      };

      it('is that of quantizeModel after loading, on one rank', async () => {
        const expected = await alone();
        manualSeed(1);
        const lora = adapters[adapter];
        const model = await fromPretrained(folders[dtype], {
          dtype,
          lora,
          quantize: blocks[quantize],
        });
        expect(await blocksIn(model)).toEqual(await blocksIn(expected));
        expectSameAdapter(await adapterOf(model), await adapterOf(expected));
        const logits = await model.eval().forward(ids()).to('f32').data();
        expectClose(logits, await expected.eval().forward(ids()).to('f32').data(), 1e-5);
      });

      it('has on each rank of every strategy its part of the blocks, of which it reads the floats alone', async () => {
        const data: LoadTask = { folder: folders[dtype], adapter, dtype, quantize, strategies };
        const ranks = await onRanks(RANKS, (place) => loadEach(place, data), onCpu);
        const expected = await alone();
        const frozen = await blocksIn(expected);
        expect(Object.keys(frozen).length).toBeGreaterThan(7 * 4);
        const adapterValues = await adapterOf(expected);
        const wholeBytes = partBytesOf(expected.parameters().filter((each) => !each.requiresGrad));
        const logits = await noGrad(() => expected.eval().forward(ids()))
          .to('f32')
          .data();
        const headerBytes = 2 * 4096 * (await readdir(folders[dtype])).length;
        const weightBytes = weights * (dtype === 'f32' ? 4 : 2);
        for (const name of strategies) {
          const found = ranks.map((rank) => rank[name] ?? expect.fail(name));
          for (const { readBytes, frozenBytes, frozen: own, ...rank } of found) {
            expect(own, name).toEqual(frozen);
            expect(readBytes, name).toBeLessThan(weightBytes + headerBytes);
            expect(frozenBytes, name).toBeLessThan((name === 'ddp' ? 1.01 : 0.7) * wholeBytes);
            expectSameAdapter(rank.adapter, adapterValues);
            if (name !== 'pp') expectClose(rank.logits, logits, dtype === 'f32' ? 1e-4 : 0.02);
          }
          if (name === 'ddp') continue;
          const total = found.reduce((sum, { readBytes }) => sum + readBytes, 0);
          expect(total, name).toBeLessThan(1.1 * weightBytes + RANKS * headerBytes);
        }
      });
    },
  );

  it.each([
    ['rows of whole blocks', 768],
    ['rows that are no whole blocks', 720],
  ])(
    'quantizes weights that are read in several pieces, as [in, out], with %s',
    async (_, nEmbd) => {
      const model = new GPT2LMHeadModel({
        vocabSize: 8,
        nEmbd,
        nLayer: 1,
        nHead: 12,
        nPositions: 8,
      });
      const folder = join(directory, `gpt2-${nEmbd}`);
      await savePretrained(model, folder);
      const expected = await quantizeModel(await fromPretrained(folder));
      let largestRead = 0;
      const place = counting(diskFolder(folder), (bytes) => {
        largestRead = Math.max(largestRead, bytes);
      });
      const found = await fromPretrained(place, { quantize: {} });
      // A million elements are in memory as floats, and never a whole weight.
      expect(largestRead).toBeLessThanOrEqual(4 * 1024 * 1024);
      expect(await blocksIn(found, 'h.')).toEqual(await blocksIn(expected, 'h.'));
    },
  );

  it('refuses a folder without a weight that is to be quantized, and two ways to quantize', async () => {
    const loading = fromPretrained(folders.f32, {
      quantize: {},
      rename: (name) => (name.endsWith('0.self_attn.q_proj.weight') ? null : name),
      allowMissing: ['model.layers.0.self_attn.q_proj.weight'],
    });
    await expect(loading).rejects.toThrow(
      `'model.layers.0.self_attn.q_proj.weight' of ${folders.f32} in blocks of few bits`,
    );
    await expect(fromPretrained(folders.f32, { quantize: {}, quantized: true })).rejects.toThrow(
      'with quantize and quantized: true',
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
}

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
