import { createMesh } from '@shardwise/collectives';
import { manualSeed, noGrad, setRank, type Tensor } from '@shardwise/core';
import { currentSession, decodeSafetensors, fromBytes, type Module } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { adapterFiles, type LoraOptions } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { tokens } from '../golden/formulas.ts';
import { axesOf, counting, partBytesOf, strategies, type StrategyName } from './pretrained.ts';

/** The adapters that a model of `models.llama` gets. */
export const adapters = {
  LoRA: { rank: 2, alpha: 4, targetModules: 'all-linear' },
  DoRA: { rank: 2, alpha: 4, targetModules: 'all-linear', useDora: true },
} as const satisfies Record<string, LoraOptions>;

const taskSchema = z.object({
  folder: z.string(),
  adapter: z.enum(['LoRA', 'DoRA']),
  dtype: z.enum(['f32', 'bf16']),
  strategies: z.array(z.custom<StrategyName>()),
});
export type LoadTask = z.infer<typeof taskSchema>;

/** What a rank has read of a folder, and what it then has. */
export const loaded = z.object({
  readBytes: z.number(),
  /** The bytes of what this rank has of the frozen weights. */
  frozenBytes: z.number(),
  /** The dtypes of parameters that train. */
  trainedDtypes: z.array(z.string()),
  /** The tensors of the adapter, whole. */
  adapter: z.record(z.string(), z.array(z.number())),
  /** Empty for a pipeline, whose last stage alone has them. */
  logits: z.array(z.number()),
});

/** Shape: -> i32 [2, 8]. */
export const ids = (): Tensor => tokens('ids', [2, 8]);

export async function adapterOf(model: Module): Promise<Record<string, number[]>> {
  const { tensors } = decodeSafetensors((await adapterFiles(model)).tensors);
  const entries = Object.entries(tensors).map(([name, { bytes, dtype }]) => {
    const values = Array.from(fromBytes(bytes.slice(), dtype), Number);
    return [name, values] as const;
  });
  return Object.fromEntries(entries);
}

export async function main(context: RankContext): Promise<Record<string, z.infer<typeof loaded>>> {
  const { group } = await join(context);
  const device = currentSession().backend;
  const { folder, adapter, dtype, strategies: names } = taskSchema.parse(context.data);
  const results: Record<string, z.infer<typeof loaded>> = {};
  for (const name of names) {
    const [axes, make] = strategies[name];
    setRank({ device, mesh: await createMesh(group, axesOf(axes, context.size)) });
    manualSeed(1);
    let readBytes = 0;
    const place = counting(diskFolder(folder), (bytes) => {
      readBytes += bytes;
    });
    const parallel = await fromPretrained(place, {
      strategy: make(),
      dtype,
      lora: adapters[adapter],
    });
    const read = readBytes;
    const parameters = parallel.module.eval().parameters();
    const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
    const logits =
      name === 'pp'
        ? []
        : await noGrad(() => parallel.forward(ids()))
            .to('f32')
            .data();
    results[name] = {
      readBytes: read,
      frozenBytes: partBytesOf(parameters.filter(({ requiresGrad }) => !requiresGrad)),
      trainedDtypes: [...new Set(trained.map((each) => each.dtype))],
      adapter: await adapterOf(parallel.module),
      logits: Array.from(logits, Number),
    };
  }
  return results;
}
