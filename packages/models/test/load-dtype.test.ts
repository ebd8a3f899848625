import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { fromData, type HostArrays, manualSeed, noGrad, setRank } from '@shardwise/core';
import { dtypes, type ModelFolder } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import {
  type LlamaConfig,
  LlamaForCausalLM,
  MixtralForCausalLM,
  type PretrainedModel,
  ResNetForImageClassification,
} from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { interpreter } from '@shardwise/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const sizes = {
  vocabSize: 16,
  hiddenSize: 8,
  intermediateSize: 12,
  numHiddenLayers: 2,
  numAttentionHeads: 2,
  numKeyValueHeads: 1,
  maxPositionEmbeddings: 8,
} as const;

const models = {
  llama: () => new LlamaForCausalLM(sizes),
  'llama with tied weights': () => new LlamaForCausalLM({ ...sizes, tieWordEmbeddings: true }),
  mixtral: () => new MixtralForCausalLM({ ...sizes, numLocalExperts: 3 }),
  resnet: () =>
    new ResNetForImageClassification({ embeddingSize: 4, hiddenSizes: [4, 8], depths: [1, 1] }),
} as const satisfies Record<string, () => PretrainedModel>;

let folder = '';
beforeEach(async () => {
  setRank({ device: interpreter() });
  manualSeed(0);
  folder = await mkdtemp(join(tmpdir(), 'shardwise-dtype-'));
});
afterEach(() => rm(folder, { recursive: true }));

function bytesOf(state: HostArrays): Record<string, string> {
  return Object.fromEntries(
    Object.entries(state).map(([name, { bytes }]) => [name, Buffer.from(bytes).toString('base64')]),
  );
}

/** The dtypes of a model's parameters, each once. */
function dtypesOf(model: PretrainedModel): readonly string[] {
  return [...new Set(model.parameters().map(({ dtype }) => dtype))];
}

describe.each(Object.entries(models))('%s', (_, build) => {
  it.each(['bf16', 'f16'] as const)(
    'has its parameters in %s, rounded as to() rounds them',
    async (dtype) => {
      await savePretrained(build(), folder);
      const loaded = await fromPretrained(folder, { dtype });
      expect(dtypesOf(loaded)).toEqual([dtype]);
      expect(loaded.parameters().some(({ requiresGrad }) => requiresGrad)).toBe(false);
      const rounded = await (await fromPretrained(folder)).to(dtype);
      const [found, expected] = [await loaded.stateDict(), await rounded.stateDict()];
      const parameters = loaded.namedParameters().map(([name]) => name);
      for (const name of parameters) expect(found[name], name).toEqual(expected[name]);
    },
  );
});

it('is f32 without the option, whatever the file has', async () => {
  await savePretrained(models.llama(), folder, { dtype: 'bf16' });
  const loaded = await fromPretrained(folder);
  expect(dtypesOf(loaded)).toEqual(['f32']);
  expect(loaded.parameters().every(({ requiresGrad }) => requiresGrad)).toBe(true);
});

it.each(['f32', 'bf16', 'f16'] as const)(
  "is that of a file in %s with 'auto', whose bytes are kept",
  async (dtype) => {
    await savePretrained(models.llama(), folder, { dtype });
    const other = await mkdtemp(join(folder, 'again-'));
    const loaded = await fromPretrained(folder, { dtype: 'auto' });
    expect(dtypesOf(loaded)).toEqual([dtype]);
    await savePretrained(loaded, other);
    const again = await fromPretrained(other, { dtype: 'auto' });
    expect(bytesOf(await again.stateDict())).toEqual(bytesOf(await loaded.stateDict()));
  },
);

it('is refused, with the name of the tensor, where a number of the model would be infinite in f16', async () => {
  const model = models.llama();
  const name = 'model.norm.weight';
  const { norm } = model.model;
  noGrad(() => norm.weight.assign(norm.weight.mul(70_000)));
  const other = await mkdtemp(join(folder, 'half-'));
  await expect(savePretrained(model, other, { dtype: 'f16' })).rejects.toThrow(
    `to save '${name}' as f16`,
  );
  expect(await readdir(other)).toEqual([]);
  await savePretrained(model, folder);
  await expect(fromPretrained(folder, { dtype: 'f16' })).rejects.toThrow(
    new RegExp(`to load '${name}' of .* as f16.*numbers in f32 that f16 has not`),
  );
  // The largest numbers of f16, and infinity itself, are kept.
  for (const value of [65_504, 65_519, Infinity]) {
    noGrad(() => norm.weight.assign(norm.weight.mul(0).add(value)));
    await savePretrained(model, folder);
    const loaded = await fromPretrained(folder, { dtype: 'f16' });
    const { [name]: array } = await loaded.stateDict();
    const kept = value === Infinity ? 0x7c00 : 0x7bff;
    expect(array?.bytes).toEqual(new Uint8Array(new Uint16Array(8).fill(kept).buffer));
  }
});

it('is refused where a number would be infinite in bf16', async () => {
  const model = models.llama();
  const { norm } = model.model;
  noGrad(() => norm.weight.assign(norm.weight.mul(3.4e38)));
  await savePretrained(model, folder);
  await expect(fromPretrained(folder, { dtype: 'bf16' })).rejects.toThrow(
    'numbers in f32 that bf16 has not',
  );
});

it('leaves buffers in f32, and the model computes', async () => {
  const model = models.resnet();
  await savePretrained(model, folder);
  const loaded = await fromPretrained(folder, { dtype: 'bf16' });
  const buffers = loaded.namedBuffers();
  expect(buffers.some(([name]) => name.endsWith('running_var'))).toBe(true);
  const [found, expected] = [await loaded.stateDict(), await model.stateDict()];
  expect(found['resnet.embedder.embedder.normalization.running_var']?.dtype).toBe('f32');
  for (const [name] of buffers) expect(found[name], name).toEqual(expected[name]);
  const image = fromData(
    Float32Array.from({ length: 3 * 32 * 32 }, (_, i) => Math.sin(i)),
    [1, 3, 32, 32],
    'f32',
  );
  const logitsOf = async (each: PretrainedModel): Promise<readonly number[]> => {
    const images = image.to(each.parameters()[0]?.dtype ?? 'f32');
    return Array.from(
      await noGrad(() => each.eval().forward(images))
        .to('f32')
        .data(),
      Number,
    );
  };
  const exact = await logitsOf(model);
  const rounded = await logitsOf(loaded);
  const largest = Math.max(...exact.map(Math.abs));
  for (const [i, value] of rounded.entries()) {
    expect(Math.abs(value - (exact[i] ?? NaN))).toBeLessThan(0.05 * largest);
  }
});

it('shares a tied weight', async () => {
  await savePretrained(models['llama with tied weights'](), folder);
  const loaded = await fromPretrained(folder, { dtype: 'bf16' });
  if (!(loaded instanceof LlamaForCausalLM)) throw new TypeError();
  expect(loaded.lmHead.weight).toBe(loaded.model.embedTokens.weight);
});

it('holds for a tensor that the file lacks, which gets initial values', async () => {
  await savePretrained(new LlamaForCausalLM(sizes), folder);
  const options = { rename: (name: string) => (name === 'lm_head.weight' ? null : name) };
  const allowMissing = ['lm_head.weight'];
  manualSeed(1);
  const loaded = await fromPretrained(folder, { ...options, allowMissing, dtype: 'bf16' });
  manualSeed(1);
  const rounded = await (await fromPretrained(folder, { ...options, allowMissing })).to('bf16');
  expect(dtypesOf(loaded)).toEqual(['bf16']);
  expect(bytesOf(await loaded.stateDict())).toEqual(bytesOf(await rounded.stateDict()));
});

it('is one of those that parameters can have', async () => {
  await savePretrained(models.llama(), folder);
  // @ts-expect-error The name is that of Python.
  const loading = fromPretrained(folder, { dtype: 'bfloat16' });
  await expect(loading).rejects.toThrow(/dtype: 'bfloat16'.*not one of f32, bf16, f16, auto/);
});

// A collection frees arrays before it returns, and not on a thread.
for (const flag of ['--expose-gc', '--no-concurrent-array-buffer-sweeping'])
  setFlagsFromString(flag);
const collect: unknown = runInNewContext('gc');

/** The bytes of the arrays that something still refers to. */
function bytesInUse(): number {
  if (typeof collect !== 'function') throw new TypeError();
  collect();
  return process.memoryUsage().arrayBuffers;
}

/** Calls `seen` with the bytes in use before each read of a file. */
function watched(place: ModelFolder, seen: (bytes: number) => void): ModelFolder {
  return {
    ...place,
    async open(name) {
      const file = await place.open(name);
      if (file === undefined) return undefined;
      return {
        ...file,
        async read(target, byteOffset) {
          seen(bytesInUse());
          return file.read(target, byteOffset);
        },
      };
    },
  };
}

/** Saves a model, which is not in memory afterwards. Returns the number of its numbers. */
async function saveWide(config: Partial<LlamaConfig>): Promise<number> {
  const model = new LlamaForCausalLM(config);
  await savePretrained(model, folder, { dtype: 'bf16' });
  return model.parameters().reduce((sum, { numel }) => sum + numel, 0);
}

it.each([
  ['f32', 4],
  ['bf16', 2],
] as const)(
  'has at no time more than a model in %s, of %i bytes a number',
  async (dtype, bytes) => {
    const wide = { ...sizes, hiddenSize: 256, intermediateSize: 512, vocabSize: 2048 };
    const numbers = await saveWide(wide);
    // What the test has dropped is freed in a turn of its own.
    await setImmediate();
    bytesInUse();
    await setImmediate();
    const before = bytesInUse();
    let most = 0;
    const place = watched(diskFolder(folder), (now) => {
      most = Math.max(most, now - before);
    });
    const loaded = await fromPretrained(place, { dtype });
    expect(dtypesOf(loaded)).toEqual([dtype]);
    // Beside the model, there is one tensor as the file has it: the largest is less than a quarter of the model.
    expect(most).toBeGreaterThan(0.9 * bytes * numbers);
    expect(most).toBeLessThan(1.4 * bytes * numbers);
  },
);

it('has at no time more than the blocks of a model that is quantized, and a weight', async () => {
  const wide = { ...sizes, hiddenSize: 256, intermediateSize: 512, vocabSize: 64 };
  const numbers = await saveWide(wide);
  await setImmediate();
  bytesInUse();
  await setImmediate();
  const before = bytesInUse();
  let most = 0;
  const place = watched(diskFolder(folder), (now) => {
    most = Math.max(most, now - before);
  });
  const model = await fromPretrained(place, { quantize: { bits: 4 } });
  const own = model
    .parameters()
    .reduce((sum, { numel, dtype }) => sum + numel * dtypes[dtype].bytes, 0);
  expect(own).toBeLessThan(0.75 * numbers);
  // The largest weight is there in the dtype of the file, in f32 and in blocks.
  const largest = 256 * 512;
  expect(most).toBeGreaterThan(0.9 * own);
  expect(most).toBeLessThan(1.1 * own + largest * (2 + 4 + 1));
});
