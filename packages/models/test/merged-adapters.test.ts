import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { manualSeed, setRank } from '@shardwise/core';
import { decodeSafetensors } from '@shardwise/core/extend';
import { addLora, GPT2LMHeadModel, mergeLora } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { fill } from './golden/formulas.ts';
import { ids, logitsSchema, type MergeTask, smallLlama } from './ranks/merged-adapters.ts';

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
    const world = createThreadsWorld({ size: 2 });
    const data: MergeTask = { useDora, folder };
    const url = new URL('./ranks/merged-adapters.ts', import.meta.url);
    const logits = z.array(logitsSchema).parse(await spawnRanks(2, url, { world, data }));
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
