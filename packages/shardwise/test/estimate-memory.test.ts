import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interpreter } from '@shardwise/testing';
import { setRank } from '@shardwise/core';
import { checkpoints, zeros } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { estimateByOptions } from '../src/cli/commands.ts';
import { estimateStates, sizeOf } from '../src/cli/estimate-memory.ts';

const gibi = 2 ** 30;

/** The tensors of BERT base, whose largest module is the embedding of 28,996 words in 768 numbers. */
const shapes = new Map([
  ['bert.embeddings.word_embeddings.weight', [28_996, 768]],
  ['bert.encoder.layer.0.intermediate.dense.weight', [3072, 768]],
  ['bert.encoder.layer.0.intermediate.dense.bias', [3072]],
]);
const source = {
  names: [...shapes.keys()],
  get: (name: string) => ({ name, dtype: 'f32' as const, shape: shapes.get(name) ?? [] }),
};

describe('the estimate of memory', () => {
  it('finds the module with the most parameters of its own', () => {
    const size = sizeOf(source);
    expect(size.elements).toBe(28_996 * 768 + 3072 * 768 + 3072);
    expect(size.largestLayer).toEqual({
      name: 'bert.embeddings.word_embeddings',
      elements: 28_996 * 768,
    });
  });

  // Figure 1 of Rajbhandari et al. 2020: 7.5 billion parameters on 64 devices.
  it.each([
    ['ddp', '16Ψ', 120],
    ['zero 1', '4Ψ + 12Ψ/N', 31.4],
    ['zero 2', '2Ψ + 14Ψ/N', 16.6],
    ['zero 3, fsdp', '16Ψ/N + 4L', 1.9],
  ])('has the bytes of the ZeRO paper: %s', (strategy, formula, gigabytes) => {
    const size = { elements: 7.5e9, largestLayer: { name: 'layer', elements: 0 } };
    const rows = estimateStates(size, { nodes: 8, ranksPerNode: 8, precision: 'half' });
    const row = rows.find((each) => each.strategy === strategy);
    expect(row?.formula).toBe(formula);
    expect((row?.deviceBytes ?? 0) / 1e9).toBeCloseTo(gigabytes, 1);
    expect(row?.nodeBytes).toBe(0);
  });

  it('counts what lies on the host for each node, and one whole layer on the device', () => {
    const size = { elements: gibi, largestLayer: { name: 'layer', elements: gibi / 64 } };
    const rows = estimateStates(size, { nodes: 2, ranksPerNode: 4, precision: 'single' });
    const row = rows.find(({ strategy }) => strategy === 'zero 3, states on host');
    expect(row).toEqual({
      strategy: 'zero 3, states on host',
      formula: '8Ψ/N + 8L',
      deviceBytes: gibi + gibi / 8,
      nodeBytes: 4 * gibi,
    });
  });
});

describe('shardwise estimate-memory', () => {
  const options = { nproc: 2, nnodes: 1, dtype: 'bf16', json: false };
  let folder = '';

  beforeAll(async () => {
    setRank({ device: interpreter() });
    folder = await mkdtemp(join(tmpdir(), 'estimate-'));
    const weights = { 'head.weight': zeros([2, 1024]) };
    await checkpoints.saveTensorFile(join(folder, 'model.safetensors'), weights);
  });

  afterAll(() => rm(folder, { recursive: true }));

  it('prints the weights and the states of training', async () => {
    let text = '';
    const write = vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => {
      text += String(chunk);
      return true;
    });
    await estimateByOptions(folder, options).finally(() => write.mockRestore());
    expect(text).toContain('2.05k parameters, of which head has 2.05k');
    expect(text).toMatch(/^f32 +8\.00 KiB +8\.00 KiB$/m);
    expect(text).toMatch(/^zero 2 +2Ψ \+ 14Ψ\/N +18\.0 KiB$/m);
  });

  it('says which file is missing in a place without weights', async () => {
    await expect(estimateByOptions(join(folder, 'absent'), options)).rejects.toThrow(
      /model\.safetensors.*no such file/s,
    );
  });
});
