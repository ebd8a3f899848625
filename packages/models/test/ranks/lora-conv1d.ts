import { readFile } from 'node:fs/promises';
import { manualSeed, noGrad, type Strategy } from '@shardwise/core';
import { decodeSafetensors } from '@shardwise/core/extend';
import { adapterFiles, addLora, GPT2LMHeadModel, mergeLora } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { parallelize, tensorParallel } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { fill, tokens } from '../golden/formulas.ts';

const ROWS = 2;
const LENGTH = 12;

const tensorValues = z.record(z.string(), z.array(z.number()));

const outcome = z.object({
  logits: z.array(z.number()),
  loss: z.number(),
  /** Gradients of the parameters that train, whole. */
  gradients: tensorValues,
  /** PEFT's two files. */
  config: z.unknown(),
  adapter: tensorValues,
  mergedLogits: z.array(z.number()),
  /** The names and values of the file that savePretrained writes after mergeLora. */
  merged: tensorValues,
});
export type Outcome = z.infer<typeof outcome>;

/** What one rank alone and two ranks together compute, by the kind of adapter. */
export const outcomes = z.record(z.string(), z.object({ alone: outcome, parallel: outcome }));

const taskSchema = z.object({
  /** An empty folder. */
  directory: z.string(),
  /** Whether adapters are DoRA, by their names. */
  adapters: z.record(z.string(), z.boolean()),
});
export type Conv1DTask = z.infer<typeof taskSchema>;

export async function main(context: RankContext): Promise<z.infer<typeof outcomes>> {
  await join(context, 'cpu', 'tp');
  const { directory, adapters } = taskSchema.parse(context.data);
  const found: z.infer<typeof outcomes> = {};
  for (const [name, useDora] of Object.entries(adapters)) {
    const folder = `${directory}/${name}`;
    found[name] = {
      alone: await run(useDora, null, `${folder}-alone`),
      parallel: await run(useDora, tensorParallel(), `${folder}-parallel`),
    };
  }
  return found;
}

async function run(useDora: boolean, strategy: Strategy | null, folder: string): Promise<Outcome> {
  manualSeed(3);
  const inner = new GPT2LMHeadModel({
    vocabSize: 48,
    nEmbd: 16,
    nHead: 4,
    nLayer: 2,
    nPositions: 16,
  });
  await fill(inner);
  addLora(inner, {
    rank: 3,
    alpha: 6,
    useDora,
    targetModules: ['c_attn', 'attn.c_proj', 'c_fc', 'mlp.c_proj'],
  });
  // B is no longer zero, so that A has gradients.
  await fill(inner);
  inner.eval();
  const model = strategy === null ? inner : await parallelize(inner, strategy);
  const ids = tokens('ids', [ROWS, LENGTH]);
  const logitsNow = async (): Promise<number[]> =>
    numbersOf(await noGrad(() => model.forward(ids)).data());
  const logits = await logitsNow();
  const loss = model.forward(ids, { labels: ids });
  loss.backward();
  const gradients: Record<string, number[]> = {};
  for (const [name, { grad }] of inner.namedParameters()) {
    if (grad !== null) gradients[name] = numbersOf(await grad.data());
  }
  const { config, tensors } = await adapterFiles(inner);
  await mergeLora(inner);
  const mergedLogits = await logitsNow();
  await savePretrained(model, folder);
  const file = await readFile(`${folder}/model.safetensors`);
  return {
    logits,
    loss: await loss.item(),
    gradients,
    config,
    adapter: valuesOf(tensors),
    mergedLogits,
    merged: valuesOf(file),
  };
}

function valuesOf(file: Uint8Array): Record<string, number[]> {
  const { tensors } = decodeSafetensors(file);
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { bytes }]) => [
      name,
      [...new Float32Array(bytes.slice().buffer)],
    ]),
  );
}

const numbersOf = (values: ArrayLike<number | bigint>): number[] => Array.from(values, Number);
