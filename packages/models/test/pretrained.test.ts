import { mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CheckpointError,
  ConfigError,
  decodeSafetensors,
  encodeSafetensors,
  type HostArrays,
  manualSeed,
  nn,
  setRank,
} from '@shardwise/core';
import {
  fromPretrained as fromFolder,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  MixtralForCausalLM,
} from '@shardwise/models';
import { fromPretrained, loadPretrained, savePretrained } from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

const sizes = {
  vocabSize: 16,
  hiddenSize: 8,
  intermediateSize: 12,
  numHiddenLayers: 2,
  numAttentionHeads: 2,
  numKeyValueHeads: 1,
  maxPositionEmbeddings: 8,
} as const;

let folder = '';
beforeEach(async () => {
  setRank({ device: interpreter() });
  manualSeed(0);
  folder = await mkdtemp(join(tmpdir(), 'shardwise-pretrained-'));
});

async function tensorsOf(name = 'model.safetensors'): Promise<HostArrays> {
  return decodeSafetensors(new Uint8Array(await readFile(join(folder, name)))).tensors;
}

/** Writes the tensors of the folder again, after a change. */
async function change(to: (tensors: HostArrays) => HostArrays): Promise<void> {
  const changed = encodeSafetensors(to(await tensorsOf()), { format: 'pt' });
  await writeFile(join(folder, 'model.safetensors'), changed);
}

function renamed(tensors: HostArrays, rename: (name: string) => string): HostArrays {
  return Object.fromEntries(Object.entries(tensors).map(([name, each]) => [rename(name), each]));
}

function bytesOf(state: HostArrays): Record<string, string> {
  return Object.fromEntries(
    Object.entries(state).map(([name, { bytes }]) => [name, Buffer.from(bytes).toString('base64')]),
  );
}

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error: unknown) => error,
  );
}

describe('a folder of savePretrained', () => {
  it('gives the model back, with its class and its config', async () => {
    const model = new LlamaForCausalLM({ ...sizes, ropeTheta: 5000 });
    await savePretrained(model, folder);
    expect((await readdir(folder)).toSorted()).toEqual(['config.json', 'model.safetensors']);
    const loaded = await fromPretrained(folder);
    expect(loaded).toBeInstanceOf(LlamaForCausalLM);
    expect(loaded.configJson()).toMatchObject({ rope_theta: 5000, vocab_size: 16 });
    expect(bytesOf(await loaded.stateDict())).toEqual(bytesOf(await model.stateDict()));
  });

  it('has a shared tensor once, and the model that is loaded shares it', async () => {
    const model = new LlamaForCausalLM({ ...sizes, tieWordEmbeddings: true });
    await savePretrained(model, folder);
    expect(Object.keys(await tensorsOf())).not.toContain('lm_head.weight');
    const loaded = await fromPretrained(folder);
    if (!(loaded instanceof LlamaForCausalLM)) throw new TypeError();
    expect(loaded.lmHead.weight).toBe(loaded.model.embedTokens.weight);
    // The other name alone does as well.
    const rest = (name: string): string =>
      name === 'model.embed_tokens.weight' ? 'lm_head.weight' : name;
    await change((tensors) => renamed(tensors, rest));
    const other = await fromPretrained(folder);
    expect(bytesOf(await other.stateDict())).toEqual(bytesOf(await model.stateDict()));
  });

  it('has each expert by itself, as a Linear has it', async () => {
    const model = new MixtralForCausalLM({ ...sizes, numHiddenLayers: 1, numLocalExperts: 3 });
    await savePretrained(model, folder);
    const expert = 'model.layers.0.block_sparse_moe.experts.2.w1.weight';
    const { [expert]: gate } = await tensorsOf();
    expect(gate?.shape).toEqual([12, 8]);
    const loaded = await fromPretrained(folder);
    const state = bytesOf(await loaded.stateDict());
    expect(state).toEqual(bytesOf(await model.stateDict()));
    await change(({ [expert]: _, ...rest }) => rest);
    expect(await errorOf(fromPretrained(folder))).toMatchObject({ fields: { missing: [expert] } });
  });

  it('may have several files, of fewer bits, which replace those of earlier saves', async () => {
    const model = new LlamaForCausalLM(sizes);
    await savePretrained(model, folder);
    await savePretrained(model, folder, { maxShardBytes: 700, dtype: 'bf16' });
    const names = (await readdir(folder)).toSorted();
    expect(names).toContain('model.safetensors.index.json');
    expect(names).not.toContain('model.safetensors');
    expect(names.filter((name) => name.endsWith('.safetensors')).length).toBeGreaterThan(2);
    const config: unknown = JSON.parse(await readFile(join(folder, 'config.json'), 'utf8'));
    expect(config).toMatchObject({ dtype: 'bfloat16', architectures: ['LlamaForCausalLM'] });
    const loaded = await fromPretrained(folder);
    expect(loaded.parameters().every(({ dtype }) => dtype === 'f32')).toBe(true);
    await savePretrained(loaded, folder);
    expect((await readdir(folder)).toSorted()).toEqual(['config.json', 'model.safetensors']);
  });

  it('may be loaded into any module, which has no config', async () => {
    const layer = new nn.Linear(3, 2);
    await savePretrained(layer, folder);
    expect(await readdir(folder)).toEqual(['model.safetensors']);
    const other = new nn.Linear(3, 2);
    await loadPretrained(other, folder);
    expect(await other.weight.data()).toEqual(await layer.weight.data());
  });

  it('can be written only where there is a place for it', async () => {
    await writeFile(join(folder, 'file'), '');
    const error = await errorOf(savePretrained(new nn.Linear(1, 1), join(folder, 'file', 'sub')));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ message: expect.stringMatching(/to save a model to .*ENOTDIR/) });
  });
});

describe('names of files of Python', () => {
  it('may lack the prefix of the base model', async () => {
    const model = new GPT2LMHeadModel({
      vocabSize: 16,
      nEmbd: 8,
      nLayer: 1,
      nHead: 2,
      nPositions: 8,
    });
    await savePretrained(model, folder);
    await change((tensors) => ({
      ...renamed(tensors, (name) => name.replace(/^transformer\./, '')),
      // Earlier versions wrote the causal mask.
      'h.0.attn.bias': { dtype: 'u8', shape: [1, 1, 8, 8], bytes: new Uint8Array(64) },
      'h.0.attn.masked_bias': { dtype: 'f32', shape: [], bytes: new Uint8Array(4) },
    }));
    const loaded = await fromPretrained(folder);
    expect(bytesOf(await loaded.stateDict())).toEqual(bytesOf(await model.stateDict()));
  });

  it('may be changed on the way', async () => {
    const model = new LlamaForCausalLM(sizes);
    await savePretrained(model, folder);
    await change((tensors) => renamed(tensors, (name) => `module.${name}`));
    const loaded = await fromPretrained(folder, { rename: (name) => name.replace('module.', '') });
    expect(bytesOf(await loaded.stateDict())).toEqual(bytesOf(await model.stateDict()));
  });
});

describe('weights that do not fit', () => {
  it('are listed, and allowed only by name', async () => {
    await savePretrained(new LlamaForCausalLM(sizes), folder);
    await change(({ 'lm_head.weight': _, ...rest }) => ({
      ...rest,
      'score.weight': { dtype: 'f32', shape: [1], bytes: new Uint8Array(4) },
    }));
    expect(await errorOf(fromPretrained(folder))).toMatchObject({
      fields: { missing: ['lm_head.weight'], unexpected: ['score.weight'] },
    });
    manualSeed(1);
    const loaded = await fromPretrained(folder, {
      allowMissing: ['lm_head.weight'],
      allowUnexpected: ['score.weight'],
    });
    if (!(loaded instanceof LlamaForCausalLM)) throw new TypeError();
    // What is missing has the initial values of a new model.
    const values = Array.from(await loaded.lmHead.weight.data(), Number);
    const deviation = Math.sqrt(values.reduce((sum, each) => sum + each ** 2, 0) / values.length);
    expect(deviation).toBeGreaterThan(0.01);
    expect(deviation).toBeLessThan(0.03);
  });

  it('of another architecture name what they lack and what they have', async () => {
    await savePretrained(
      new GPT2LMHeadModel({ vocabSize: 16, nEmbd: 8, nLayer: 1, nHead: 2, nPositions: 8 }),
      folder,
    );
    const error = await errorOf(loadPretrained(new LlamaForCausalLM(sizes), folder));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({
      message: expect.stringMatching(
        /21 missing: model\.embed_tokens\.weight.*16 unexpected: transformer/,
      ),
    });
  });

  it('of another shape are refused before anything changes', async () => {
    await savePretrained(new LlamaForCausalLM({ ...sizes, vocabSize: 20 }), folder);
    const model = new LlamaForCausalLM(sizes);
    const before = bytesOf(await model.stateDict());
    expect(await errorOf(loadPretrained(model, folder))).toMatchObject({
      fields: {
        different: [
          'model.embed_tokens.weight (shape [20, 8], not [16, 8])',
          'lm_head.weight (shape [20, 8], not [16, 8])',
        ],
      },
    });
    expect(bytesOf(await model.stateDict())).toEqual(before);
  });
});

describe('a folder that is not whole', () => {
  beforeEach(() => savePretrained(new LlamaForCausalLM(sizes), folder, { maxShardBytes: 2000 }));

  it.each([
    ['without config.json', () => rm(join(folder, 'config.json')), /no config\.json in it/],
    [
      'with a config.json that is none',
      () => writeFile(join(folder, 'config.json'), '['),
      /a config\.json that is no JSON/,
    ],
    [
      'without weights',
      () => rm(join(folder, 'model.safetensors.index.json')),
      /none of model\.safetensors, .*pytorch_model\.bin/,
    ],
    [
      'without one of its files',
      () => rm(join(folder, 'model-00002-of-00003.safetensors')),
      /model-00002-of-00003\.safetensors: no such file/,
    ],
    [
      'with a file that is cut off',
      () => truncate(join(folder, 'model-00001-of-00003.safetensors'), 1000),
      /model-00001-of-00003\.safetensors: expected \d+ bytes/,
    ],
  ])('%s', async (_, breakIt, message) => {
    await breakIt();
    const error = await errorOf(fromPretrained(folder));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({ message: expect.stringMatching(message) });
  });

  it('or asks for what no class computes', async () => {
    const path = join(folder, 'config.json');
    const config: unknown = JSON.parse(await readFile(path, 'utf8'));
    const asks = Object.assign({}, config, { attention_sink_size: 4 });
    await writeFile(path, JSON.stringify(asks));
    const error = await errorOf(fromPretrained(folder));
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ message: expect.stringContaining('attention_sink_size') });
    expect(await fromPretrained(folder, { ignoredKeys: ['attention_sink_size'] })).toBeInstanceOf(
      LlamaForCausalLM,
    );
  });

  it('may be one file of it that is named', async () => {
    const index = 'model.safetensors.index.json';
    await rename(join(folder, index), join(folder, 'other.safetensors.index.json'));
    expect(await fromPretrained(folder, { file: 'other.safetensors.index.json' })).toBeInstanceOf(
      LlamaForCausalLM,
    );
    expect(await fromPretrained(join(folder, 'other.safetensors.index.json'))).toBeInstanceOf(
      LlamaForCausalLM,
    );
    expect(await errorOf(fromPretrained(folder, { file: 'model.onnx' }))).toMatchObject({
      message: expect.stringContaining('an ending that no known format has'),
    });
  });
});

it('refuses a path where only folders are taken, and says which function takes paths', async () => {
  // @ts-expect-error: a path is for the function of @shardwise/models/node.
  await expect(fromFolder('model')).rejects.toThrow(
    /^fromPretrained with the folder 'model': no ModelFolder\. Import fromPretrained from @shardwise\/models\/node/,
  );
});
