import { mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BertForMaskedLM, GPT2LMHeadModel, LlamaForCausalLM } from '@shardwise/models';
import { encodeSafetensorsHeader } from '@shardwise/core/extend';
import { Generator } from 'shardwise';

/** The sizes of TinyLlama, 1.1 billion parameters. */
export const tinyLlama = {
  vocabSize: 32_000,
  hiddenSize: 2048,
  intermediateSize: 5632,
  numHiddenLayers: 22,
  numAttentionHeads: 32,
  numKeyValueHeads: 4,
} as const;

/** The numbers that are written again and again. Their count is prime, so that rows of matrices differ. */
const COUNT = 1_000_003;
const empty = { initialValues: 'zeros' } as const;

/** The models of the benchmark: without dropout, so that losses can be compared with those of the peer. */
const models = {
  bert: () => new BertForMaskedLM({ hiddenDropoutProb: 0, attentionProbsDropoutProb: 0 }, empty),
  gpt2: () => new GPT2LMHeadModel({ residPdrop: 0, embdPdrop: 0, attnPdrop: 0 }, empty),
  llama: () => new LlamaForCausalLM(tinyLlama, empty),
};
export type BenchModel = keyof typeof models;

/**
 * Writes a folder of a model with random weights. No more of them than a block is in memory, so it takes as long as
 * writing the file.
 */
export async function writeFolder(
  name: BenchModel,
  dtype: 'f32' | 'bf16',
  folder: string,
): Promise<void> {
  const model = models[name]();
  const parameters = new Map(model.namedParameters());
  const types = [...parameters].map(([key, { shape }]) => [key, { dtype, shape }] as const);
  const { header, places } = encodeSafetensorsHeader(Object.fromEntries(types), { format: 'pt' });
  const random = bytesOf(new Generator(0).normal(COUNT, 0, 0.02), dtype);
  await mkdir(folder, { recursive: true });
  const config = { ...model.configJson(), dtype: dtype === 'f32' ? 'float32' : 'bfloat16' };
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  await using file = await open(join(folder, 'model.safetensors'), 'w');
  await file.write(header);
  for (const { name: key, byteLength } of places) {
    const parameter = parameters.get(key);
    const isMatrix = (parameter?.shape.length ?? 0) > 1;
    // Norms and biases keep their values: ones and zeros.
    const source =
      isMatrix || parameter === undefined
        ? random
        : bytesOf(Float32Array.from(await parameter.data(), Number), dtype);
    for (let written = 0; written < byteLength; written += source.byteLength) {
      await file.write(source.subarray(0, byteLength - written));
    }
  }
}

/** The bytes of numbers. Those of bf16 are the upper halves of f32's. */
function bytesOf(values: Float32Array, dtype: 'f32' | 'bf16'): Uint8Array {
  const { buffer, byteOffset, byteLength } = values;
  if (dtype === 'f32') return new Uint8Array(buffer, byteOffset, byteLength);
  const words = new Uint32Array(buffer, byteOffset, values.length);
  return new Uint8Array(Uint16Array.from(words, (word) => word >>> 16).buffer);
}
