import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { ConfigError, fromData, LineMesh, noGrad, optim, setRank } from '@shardwise/core';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { type GgufBlockName, type Parameter, pickedFolder } from '@shardwise/core/extend';
import { addLora, fromPretrained, loadPretrained, type PretrainedModel } from '@shardwise/models';
import {
  colwiseParallel,
  fsdp,
  memory,
  planFor,
  tensorParallel,
  vocabParallelEmbedding,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { ggufFormats } from '../src/quantized/gguf-formats.ts';
import { blockTypeOf } from '../src/weights/gguf/block-types.ts';

// GGUF's blocks and models of several architectures, as Python reads them (tools/golden-gguf.py).

const bytes = z.string().transform((text) => new Uint8Array(Buffer.from(text, 'base64')));
const floats = bytes.transform(({ buffer }) => new Float32Array(buffer));
const read = (name: string): unknown =>
  JSON.parse(readFileSync(`${import.meta.dirname}/golden/gguf-${name}.json`, 'utf8'));
const blocks = z.record(z.string(), z.object({ bytes, values: floats })).parse(read('blocks'));
const models = z
  .record(z.string(), z.object({ file: bytes, ids: z.array(z.number()), logits: floats }))
  .parse(read('models'));

const numbers: Readonly<Record<GgufBlockName, number>> = {
  Q4_0: 2,
  Q4_1: 3,
  Q5_0: 6,
  Q5_1: 7,
  Q8_0: 8,
  Q4_K: 12,
  Q5_K: 13,
  Q6_K: 14,
};
const names = z.array(z.enum(['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K']));
const kinds = names.length(8).parse(Object.keys(numbers));

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

describe.each(kinds)('blocks of %s', (kind) => {
  const { bytes: stored, values } = blocks[kind] ?? expect.fail(kind);

  test('have the numbers of gguf when a file is read', () => {
    const { decode } = blockTypeOf(numbers[kind], 'weight', 'file');
    const found = new Float32Array(values.length);
    decode?.(stored, found);
    expect(found).toEqual(values);
  });

  test('have the same numbers when the device decodes them', async () => {
    const { bytes: blockBytes, decode } = ggufFormats[kind];
    const input = fromData(stored.slice(), [stored.length / blockBytes, blockBytes], 'u8');
    // -0 and 0 are the same number.
    const found = Float32Array.from(await decode(input).data(), Number).map((value) => value + 0);
    expect(found).toEqual(values.map((value) => value + 0));
  });
});

function fileOf(name: string): Parameters<typeof fromPretrained>[0] {
  const { file } = models[name] ?? expect.fail(name);
  return pickedFolder([new File([file], 'model.gguf')]);
}

async function logitsOf(model: PretrainedModel, name: string): Promise<Float32Array> {
  const { ids } = models[name] ?? expect.fail(name);
  const input = fromData(Int32Array.from(ids), [2, ids.length / 2], 'i32');
  return Float32Array.from(await noGrad(() => model.eval().forward(input)).data(), Number);
}

/** The weights that are bytes of a file, by their names. */
function weightsInBlocks(model: PretrainedModel): readonly (readonly [string, Parameter])[] {
  return model.namedParameters().filter(([, { dtype }]) => dtype === 'u8');
}

function largestDifference(found: Float32Array, expected: Float32Array): number {
  expect(found).toHaveLength(expected.length);
  return found.reduce(
    (most, value, i) => Math.max(most, Math.abs(value - (expected[i] ?? NaN))),
    0,
  );
}

describe.each(Object.keys(models))('a GGUF file of %s', (name) => {
  test('has the logits of transformers', async () => {
    const model = await fromPretrained(fileOf(name), { file: 'model.gguf' });
    const found = await logitsOf(model, name);
    expect(largestDifference(found, models[name]?.logits ?? found)).toBeLessThan(1e-4);
  });

  test('has the same logits, and the bytes of the file, with weights that stay in blocks', async () => {
    const whole = await fromPretrained(fileOf(name), { file: 'model.gguf' });
    const expected = await logitsOf(whole, name);
    const model = await fromPretrained(fileOf(name), { file: 'model.gguf', quantized: true });
    // The weights and the order of additions are the same. But passes over at most 4096 elements run in ONNX Runtime or in
    // loops, as what stands beside them does, and the loops that decode blocks stand there too. Gemma 2 bounds its scores
    // by tanh, the last bit of which the two find in different ways: its logits differ by 7e-7, and those of others by 0.
    expect(largestDifference(await logitsOf(model, name), expected)).toBeLessThan(1e-5);

    // Those of seven linear layers of each block, and those of the embeddings, which may also be the head's.
    const blocked = weightsInBlocks(model);
    const { numHiddenLayers, tieWordEmbeddings } = z
      .object({ numHiddenLayers: z.number(), tieWordEmbeddings: z.boolean() })
      .parse(model.config);
    expect(blocked).toHaveLength(7 * numHiddenLayers + (tieWordEmbeddings ? 1 : 2));
    const numbers = new Map(whole.namedParameters());
    const elements = blocked.reduce((sum, [path]) => sum + (numbers.get(path)?.numel ?? 0), 0);
    const inBlocks = blocked.reduce((sum, [, { numel }]) => sum + numel, 0);
    const saved = memory({ model: whole }).parameterBytes - memory({ model }).parameterBytes;
    expect(saved).toBe(4 * elements - inBlocks);
    expect(model.flopsPerToken(12)).toBe(whole.flopsPerToken(12));
  });
});

test('with a dtype, all that is not in blocks has it, and the logits are those of f32 rounded', async () => {
  const options = { file: 'model.gguf', quantized: true } as const;
  const model = await fromPretrained(fileOf('llama'), { ...options, dtype: 'bf16' });
  const others = model.namedParameters().filter(([, { dtype }]) => dtype !== 'u8');
  expect(others).toHaveLength(3);
  for (const [name, { dtype }] of others)
    expect([name, dtype]).toEqual([expect.stringMatching(/norm/), 'bf16']);
  const expected = await logitsOf(await fromPretrained(fileOf('llama'), options), 'llama');
  const largest = Math.max(...expected.map(Math.abs));
  const { ids } = models['llama'] ?? expect.fail('llama');
  const input = fromData(Int32Array.from(ids), [2, ids.length / 2], 'i32');
  const logits = await noGrad(() => model.eval().forward(input).to('f32')).data();
  const found = Float32Array.from(logits, Number);
  expect(largestDifference(found, expected)).toBeLessThan(0.05 * largest);
  // What was in blocks in the file is f32 when it is decoded.
  const decoded = await fromPretrained(fileOf('llama'), { file: 'model.gguf', dtype: 'auto' });
  expect(decoded.parameters().every(({ dtype }) => dtype === 'f32')).toBe(true);
});

test.each([
  ['f32', 'bf16'],
  ['bf16', 'f32'],
] as const)(
  'the embeddings of a model of %s that is converted to %s are of that dtype, too',
  async (from, to) => {
    const options = { file: 'model.gguf', quantized: true } as const;
    const model = await fromPretrained(fileOf('llama'), { ...options, dtype: from });
    await model.to(to);
    const logits = noGrad(() => model.forward(fromData(Int32Array.of(3, 4), [1, 2], 'i32')));
    expect(logits.dtype).toBe(to);
  },
);

test('frequencies that are scaled as those of Llama 3 are found in the factors of a file', async () => {
  const model = await fromPretrained(fileOf('llama'), { file: 'model.gguf' });
  expect(model.configJson()).toMatchObject({
    rope_scaling: {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
    },
  });
});

test('other factors of frequencies are an error', async () => {
  const { file } = models['llama'] ?? expect.fail('llama');
  const changed = file.slice();
  // The only number 8 among these factors is the last one.
  const eight = Buffer.from(Float32Array.of(8).buffer);
  changed.set(Buffer.from(Float32Array.of(9).buffer), Buffer.from(file.buffer).lastIndexOf(eight));
  const folder = pickedFolder([new File([changed], 'model.gguf')]);
  await expect(fromPretrained(folder, { file: 'model.gguf' })).rejects.toThrow(
    /rope_freqs\.weight with other numbers/,
  );
});

test('adapters train on weights that stay in blocks, as on the numbers of these blocks', async () => {
  const { ids } = models['llama'] ?? expect.fail('llama');
  const input = fromData(Int32Array.from(ids), [2, ids.length / 2], 'i32');
  const runs: (readonly number[])[] = [];
  for (const quantized of [true, false]) {
    const model = await fromPretrained(fileOf('llama'), { file: 'model.gguf', quantized });
    addLora(model, { rank: 4, targetModules: 'all-linear' });
    for (const [name, parameter] of model.namedParameters()) {
      if (!name.endsWith('lora_A.weight')) continue;
      const values = Float32Array.from({ length: parameter.numel }, (_, i) => Math.sin(i + 1) / 4);
      parameter.assign(fromData(values, parameter.shape, 'f32'));
    }
    const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
    expect(trained).toHaveLength(14);
    const optimizer = new optim.AdamW(trained, { lr: 0.02 });
    const losses: number[] = [];
    for (let step = 0; step < 8; step++) {
      optimizer.zeroGrad();
      const loss = model.forward(input, { labels: input });
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    runs.push(losses);
  }
  const [inBlocks = [], plain = []] = runs;
  expect(inBlocks.at(-1)).toBeLessThan((inBlocks[0] ?? 0) * 0.9);
  for (const [step, loss] of plain.entries()) expect(inBlocks[step]).toBeCloseTo(loss, 5);
});

test.each(['llama', 'gemma2'])('two ranks divide the bytes of blocks of %s', async (name) => {
  const options = { file: 'model.gguf', quantized: true } as const;
  const expected = await logitsOf(await fromPretrained(fileOf(name), options), name);
  const { ids } = models[name] ?? expect.fail(name);
  const found = await onRanks(
    2,
    async () => {
      const parallel = await fromPretrained(fileOf(name), { ...options, strategy: fsdp() });
      const { parameterBytes } = memory({ model: parallel.module });
      const input = fromData(Int32Array.from(ids), [2, ids.length / 2], 'i32');
      const logits = await noGrad(() => parallel.forward(input)).data();
      return { parameterBytes, logits: Float32Array.from(logits, Number) };
    },
    { axes: [{ name: 'dp', size: 2 }], ...onCpu },
  );
  const whole = memory({ model: await fromPretrained(fileOf(name), options) }).parameterBytes;
  for (const { logits, parameterBytes } of found) {
    expect(largestDifference(logits, expected)).toBe(0);
    expect(parameterBytes).toBe(whole / 2);
  }
});

test('embeddings and a head that share a weight share its blocks, also when other weights are loaded', async () => {
  const options = { file: 'model.gguf', quantized: true } as const;
  const model = await fromPretrained(fileOf('gemma2'), options);
  const state = new Map(model.namedState());
  const shared = state.get('model.embed_tokens.weight') ?? expect.fail();
  expect(state.get('lm_head.weight')).toBe(shared);
  const expected = await logitsOf(model, 'gemma2');
  noGrad(() => shared.assign(fromData(new Uint8Array(shared.numel), shared.shape, 'u8')));
  expect(largestDifference(await logitsOf(model, 'gemma2'), expected)).toBeGreaterThan(0);
  const report = await loadPretrained(model, fileOf('gemma2'), { file: 'model.gguf' });
  expect(report.missing).toEqual([]);
  expect(new Map(model.namedState()).get('lm_head.weight')).toBe(shared);
  expect(largestDifference(await logitsOf(model, 'gemma2'), expected)).toBe(0);
});

test.each(Object.keys(models))(
  'the loss of %s is that of the numbers of its blocks',
  async (name) => {
    const { ids } = models[name] ?? expect.fail(name);
    const input = fromData(Int32Array.from(ids), [2, ids.length / 2], 'i32');
    const losses: number[] = [];
    for (const quantized of [true, false]) {
      const model = await fromPretrained(fileOf(name), { file: 'model.gguf', quantized });
      losses.push(await model.forward(input, { labels: input }).item());
    }
    const [inBlocks = NaN, plain = 0] = losses;
    expect(inBlocks).toBeCloseTo(plain, 5);
  },
);

/** A file of a small Llama, all of whose matrices are blocks of zeros, of a type of which 256 elements take 144 bytes. */
function zerosInBlocks(type: GgufBlockName): Parameters<typeof fromPretrained>[0] {
  const u32 = (value: number): number[] => [...Buffer.from(Uint32Array.of(value).buffer)];
  const u64 = (value: number): number[] => [...u32(value), ...u32(0)];
  const text = (value: string): number[] => [...u64(value.length), ...Buffer.from(value)];
  const sizes = {
    block_count: 1,
    context_length: 16,
    embedding_length: 256,
    feed_forward_length: 256,
    'attention.head_count': 2,
  };
  const metadata = [
    [...text('general.architecture'), ...u32(8), ...text('llama')],
    [
      ...text('llama.attention.layer_norm_rms_epsilon'),
      ...u32(6),
      ...Buffer.from(Float32Array.of(1e-6).buffer),
    ],
    ...Object.entries(sizes).map(([key, value]) => [
      ...text(`llama.${key}`),
      ...u32(4),
      ...u32(value),
    ]),
  ];
  const parts = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'];
  const norms = ['output_norm', 'blk.0.attn_norm', 'blk.0.ffn_norm'];
  let offset = 0;
  const tensor = (name: string, dims: readonly number[], kind: number, byteLength: number) => {
    const info = [
      ...text(`${name}.weight`),
      ...u32(dims.length),
      ...dims.flatMap(u64),
      ...u32(kind),
    ];
    const whole = [...info, ...u64(offset)];
    offset += byteLength;
    return whole;
  };
  const tensors = [
    ...norms.map((name) => tensor(name, [256], 0, 1024)),
    tensor('token_embd', [256, 8], numbers[type], 8 * 144),
    ...parts.map((part) => tensor(`blk.0.${part}`, [256, 256], numbers[type], 256 * 144)),
  ];
  const counts = [...u64(tensors.length), ...u64(metadata.length)];
  const head = [
    ...Buffer.from('GGUF'),
    ...u32(3),
    ...counts,
    ...metadata.flat(),
    ...tensors.flat(),
  ];
  const file = new Uint8Array(Math.ceil(head.length / 32) * 32 + offset);
  file.set(head);
  return pickedFolder([new File([file], 'model.gguf')]);
}

test('blocks of another format are refused, also if they have as many bytes', async () => {
  const file = 'model.gguf';
  const model = await fromPretrained(zerosInBlocks('Q4_K'), { file, quantized: true });
  await expect(loadPretrained(model, zerosInBlocks('Q4_0'), { file })).rejects.toThrow(
    /8 different: model\.embed_tokens\.weight \(blocks of Q4_0, not Q4_K\)/,
  );
  const report = await loadPretrained(model, zerosInBlocks('Q4_K'), { file });
  expect(report).toEqual({ missing: [], unexpected: [] });
});

test('a token beyond the vocabulary is an error, and no row of blocks', async () => {
  const model = await fromPretrained(fileOf('llama'), { file: 'model.gguf', quantized: true });
  const logits = noGrad(() => model.forward(fromData(Int32Array.of(3, 16), [1, 2], 'i32')));
  await expect(logits.data()).rejects.toMatchObject({ code: 'INDEX' });
});

test.each(['llama', 'gemma2'])(
  'embeddings of %s for which a file has no blocks are an error',
  async (name) => {
    const resized = {
      file: 'model.gguf',
      config: { vocab_size: 20 },
      allowMismatched: [/embed_tokens|lm_head/],
    };
    await expect(fromPretrained(fileOf(name), { ...resized, quantized: true })).rejects.toThrow(
      /'model\.embed_tokens\.weight' of .* in blocks of few bits/,
    );
  },
);

test('embeddings in blocks do not train', async () => {
  const model = await fromPretrained(fileOf('llama'), { file: 'model.gguf', quantized: true });
  const lora = { targetModules: 'all-linear', modulesToSave: ['embed_tokens'] } as const;
  expect(() => addLora(model, lora)).toThrow(expect.objectContaining({ code: 'DTYPE' }));
});

test('ranks do not share out the vocabulary of embeddings and heads in blocks', async () => {
  const model = await fromPretrained(fileOf('llama'), { file: 'model.gguf', quantized: true });
  const styles = { 'model.embed_tokens': vocabParallelEmbedding(), lm_head: colwiseParallel() };
  for (const [path, style] of Object.entries(styles)) {
    const strategy = tensorParallel({ [path]: style }, { axis: 'dp' });
    const found = `${style.name}\\(\\) of the module '${path}'.*in blocks of few bits \\(u8\\)`;
    expect(() => planFor(model, strategy)).toThrow(
      expect.objectContaining({
        code: 'LAYOUT',
        message: expect.stringMatching(new RegExp(found, 's')),
      }),
    );
  }
});

test('blocks are asked of a GGUF file only', async () => {
  const folder = pickedFolder([new File(['{"model_type":"llama"}'], 'config.json')]);
  await expect(fromPretrained(folder, { quantized: true })).rejects.toThrow(ConfigError);
});
