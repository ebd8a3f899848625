import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, noGrad, setRank } from '@shardwise/core';
import {
  fromData,
  Generator,
  pickedFolder,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import {
  architectures,
  fromPretrained,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  modelFromConfig,
  type PretrainedModel,
} from '@shardwise/models';
import { expect } from 'vitest';
import { z } from 'zod';
import { fill } from './golden-weights.ts';

const rows = z.array(z.array(z.number()));

/** What transformers generates with small models: packages/models/test/golden/generation.json. */
export const golden = z
  .object({
    prompts: rows,
    models: z.array(
      z.object({
        name: z.string(),
        architecture: z.string(),
        config: z.record(z.string(), z.unknown()),
        greedy: rows,
        eos: z.number(),
        greedyWithEos: rows,
        earlyBeams: rows,
      }),
    ),
  })
  .parse(
    JSON.parse(
      readFileSync(`${import.meta.dirname}/../../models/test/golden/generation.json`, 'utf8'),
    ),
  );

export async function useCpu(): Promise<void> {
  setRank({ device: await cpu({ batchInvariant: true }) });
}

/** A model of the golden file with its weights. */
export async function goldenModel(name: string): Promise<PretrainedModel> {
  const { config, architecture } =
    golden.models.find((each) => each.name === name) ?? expect.fail();
  const model = modelFromConfig({ ...config, architectures: [architecture] }, architectures);
  await fill(model);
  return model;
}

/**
 * A model with random weights and a context of 512 tokens. The head of `wide` is so large that ONNX Runtime computes its
 * products with few rows faster than machine code does. `probability` is that of the dropout of a GPT-2.
 */
export function randomModel(
  family: 'gpt2' | 'llama' | 'wide',
  seed = 1,
  probability = 0,
): PretrainedModel {
  manualSeed(seed);
  const generator = new Generator(seed);
  const dropout = { residPdrop: probability, embdPdrop: probability, attnPdrop: 0 };
  return family !== 'llama'
    ? new GPT2LMHeadModel(
        {
          vocabSize: family === 'wide' ? 2048 : 211,
          nPositions: 512,
          nEmbd: family === 'wide' ? 192 : 48,
          nLayer: 2,
          nHead: 3,
          initializerRange: 0.2,
          ...dropout,
        },
        { generator },
      )
    : new LlamaForCausalLM(
        {
          vocabSize: 211,
          maxPositionEmbeddings: 512,
          hiddenSize: 64,
          intermediateSize: 96,
          numHiddenLayers: 2,
          numAttentionHeads: 4,
          numKeyValueHeads: 2,
          initializerRange: 0.2,
        },
        { generator },
      );
}

/** A small model that keeps the blocks of a GGUF file. The head of Gemma 2 has the weight of the embeddings. */
export async function modelInBlocks(name: 'llama' | 'gemma2'): Promise<PretrainedModel> {
  const text = readFileSync(
    `${import.meta.dirname}/../../models/test/golden/gguf-models.json`,
    'utf8',
  );
  const { file } =
    z.record(z.string(), z.object({ file: z.string() })).parse(JSON.parse(text))[name] ??
    expect.fail();
  const folder = pickedFolder([new File([Buffer.from(file, 'base64')], 'model.gguf')]);
  return fromPretrained(folder, { file: 'model.gguf', quantized: true });
}

/** A small model with 64 positions. With few tokens, texts repeat themselves. */
export function smallModel(vocabSize: number, seed: number): GPT2LMHeadModel {
  return new GPT2LMHeadModel(
    {
      vocabSize,
      nPositions: 64,
      nEmbd: 16,
      nLayer: 1,
      nHead: 2,
      initializerRange: 0.5,
      residPdrop: 0,
      embdPdrop: 0,
      attnPdrop: 0,
    },
    { generator: new Generator(seed) },
  );
}

/** A model with an even number of heads, which two ranks can share out. */
export function dividableModel(family: 'llama' | 'gpt2'): PretrainedModel {
  if (family === 'llama') return randomModel('llama');
  const sizes = { vocabSize: 211, nPositions: 512, nEmbd: 48, nLayer: 2, nHead: 4 };
  const dropout = { residPdrop: 0, embdPdrop: 0, attnPdrop: 0 };
  return new GPT2LMHeadModel(
    { ...sizes, ...dropout, initializerRange: 0.2 },
    { generator: new Generator(1) },
  );
}

/** A model whose weights are a little larger than those of `randomModel`, which is right of it now and then. */
export async function changedModel(family: 'gpt2' | 'llama' | 'wide'): Promise<PretrainedModel> {
  const model = randomModel(family);
  for (const parameter of model.parameters()) {
    noGrad(() => parameter.assign(parameter.mul(1.1)));
    await parameter.realize();
  }
  return model;
}

/**
 * The log-probability that a training forward gives each token of a text, from the second one on.
 * Shape: -> [tokens - 1].
 */
export async function trainingLogProbabilities(
  model: PretrainedModel,
  tokens: readonly number[],
): Promise<readonly number[]> {
  const ids = fromData(Int32Array.from(tokens), [1, tokens.length], 'i32');
  const next = fromData(Int32Array.from(tokens.slice(1)), [1, tokens.length - 1, 1], 'i32');
  // Nothing between is read, so that short texts have the programs of long ones.
  const own = withoutValues(() => {
    const logits: Tensor = model.forward(ids, {}).to('f32');
    return logits
      .slice(1, 0, tokens.length - 1)
      .logSoftmax()
      .gather(2, next);
  });
  return Array.from(await own.data(), Number);
}

/** Tokens that depend on a number. */
export function randomTokens(seed: number, length: number, vocabulary = 211): number[] {
  const generator = new Generator(seed);
  return Array.from(generator.uniform(length, 0, 1), (value) => Math.floor(value * vocabulary));
}
