import { manualSeed, noGrad, type Tensor } from '@shardwise/core';
import { addLora, LlamaForCausalLM, mergeLora } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { fsdp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { fill, tokens } from '../golden/formulas.ts';

const taskSchema = z.object({
  useDora: z.boolean(),
  /** The folder to save the merged model to. */
  folder: z.string(),
});
export type MergeTask = z.infer<typeof taskSchema>;

/** The logits of the merged model. */
export const logitsSchema = z.array(z.number());

/** Shape: -> i32 [2, 8]. */
export const ids = (): Tensor => tokens('ids', [2, 8]);

export const smallLlama = (): LlamaForCausalLM =>
  new LlamaForCausalLM({
    vocabSize: 48,
    hiddenSize: 16,
    intermediateSize: 24,
    numHiddenLayers: 2,
    numAttentionHeads: 2,
    tieWordEmbeddings: true,
  });

/** Merges adapters under FSDP, and saves the model. */
export async function main(context: RankContext): Promise<z.infer<typeof logitsSchema>> {
  await join(context);
  const { useDora, folder } = taskSchema.parse(context.data);
  manualSeed(1);
  const model = addLora(smallLlama(), { rank: 2, targetModules: 'all-linear', useDora });
  // B is no longer zero, so that the weights change.
  await fill(model);
  const parallel = await parallelize(model.eval(), fsdp());
  await mergeLora(model);
  await savePretrained(parallel, folder);
  return Array.from(await noGrad(() => parallel.forward(ids())).data(), Number);
}
