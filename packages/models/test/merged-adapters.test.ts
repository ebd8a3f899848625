import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, noGrad, setRank, type Tensor } from '@shardwise/core';
import { decodeSafetensors } from '@shardwise/core/extend';
import { addLora, GPT2LMHeadModel, LlamaForCausalLM, mergeLora } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { fsdp, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { fill, tokens } from './golden/formulas.ts';

/** Shape: -> i32 [2, 8]. */
const ids = (): Tensor => tokens('ids', [2, 8]);

const smallLlama = (): LlamaForCausalLM =>
  new LlamaForCausalLM({
    vocabSize: 48,
    hiddenSize: 16,
    intermediateSize: 24,
    numHiddenLayers: 2,
    numAttentionHeads: 2,
    tieWordEmbeddings: true,
  });

/** Merges adapters under FSDP, and saves the model. */
async function saveMerged(useDora: boolean): Promise<number[]> {
  manualSeed(1);
  const model = addLora(smallLlama(), { rank: 2, targetModules: 'all-linear', useDora });
  // B is no longer zero, so that the weights change.
  await fill(model);
  const parallel = await parallelize(model.eval(), fsdp());
  await mergeLora(model);
  await savePretrained(parallel, folder);
  return Array.from(await noGrad(() => parallel.forward(ids())).data(), Number);
}

const models = {
  LlamaForCausalLM: smallLlama,
  GPT2LMHeadModel: () => new GPT2LMHeadModel({ vocabSize: 48, nEmbd: 16, nLayer: 2, nHead: 2 }),
};

let folder = '';
beforeEach(async () => {
  setRank({ device: await cpu() });
  manualSeed(0);
  folder = await mkdtemp(join(tmpdir(), 'shardwise-merged-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
});

describe.each(Object.entries(models))('a %s', (architecture, build) => {
  test.each([false, true])(
    'is saved with merged adapters as a model without them, which its plain class opens (DoRA: %s)',
    async (useDora) => {
      const plain = build();
      const names = new Set(plain.namedState().map(([name]) => name));
      const model = addLora(plain, { rank: 2, targetModules: 'all-linear', useDora });
      // B is no longer zero, so that the weights change.
      await fill(model);
      await mergeLora(model.eval());
      await savePretrained(model, folder);
      const file = decodeSafetensors(
        new Uint8Array(await readFile(join(folder, 'model.safetensors'))),
      );
      for (const name of Object.keys(file.tensors)) expect(names).toContain(name);
      const loaded = await fromPretrained(folder);
      expect(loaded.architecture).toBe(architecture);
      expect(loaded.namedModules().some(([, module]) => 'loraA' in module)).toBe(false);
      expect(await loaded.eval().forward(ids()).data()).toEqual(await model.forward(ids()).data());
    },
  );

  test('is not saved while its adapters are apart, as other programs would leave them out', async () => {
    const model = addLora(build(), { targetModules: 'all-linear' });
    await expect(savePretrained(model, folder)).rejects.toThrow(
      /whose adapter is apart from its weight\. Call mergeLora before, or save the adapter alone with saveAdapter/,
    );
  });
});

test.each([false, true])(
  'two ranks of FSDP save what its plain class opens on one rank (DoRA: %s)',
  async (useDora) => {
    const logits = await onRanks(2, () => saveMerged(useDora));
    const loaded = await fromPretrained(folder);
    expect(loaded.namedState().map(([name]) => name)).toEqual(
      smallLlama()
        .namedState()
        .map(([name]) => name),
    );
    const expected = await loaded.eval().forward(ids()).data();
    for (const rank of logits) {
      expect(rank).toHaveLength(expected.length);
      for (const [at, value] of rank.entries()) expect(value).toBeCloseTo(Number(expected[at]), 5);
    }
  },
);
