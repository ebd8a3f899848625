import { createMesh } from '@shardwise/collectives';
import { manualSeed, noGrad, setRank, type Tensor } from '@shardwise/core';
import { currentSession, decodeSafetensors, fromBytes, type Module } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { adapterFiles, type LoraOptions, type QuantizeOptions } from '@shardwise/models';
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

/** All layers but `o_proj`, whose rows are one block of 64 elements, which two ranks cannot share. */
const targetModules = ['q_proj', 'k_proj', 'v_proj', 'gate_proj', 'up_proj', 'down_proj'];

/** The blocks in which the model may be kept. */
export const blocks = {
  nf4: { bits: 4, targetModules },
  int8: { bits: 8, doubleQuantization: false, targetModules },
} as const satisfies Record<string, QuantizeOptions>;

const taskSchema = z.object({
  folder: z.string(),
  adapter: z.enum(['LoRA', 'DoRA']),
  dtype: z.enum(['f32', 'bf16']),
  quantize: z.enum(['nf4', 'int8']).optional(),
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
  /** The frozen tensors in blocks and their scales, whole, as text. */
  frozen: z.record(z.string(), z.string()),
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

/** The bytes of the weights in blocks of a model, and of their scales. */
export async function blocksIn(model: Module, part = 'layers.'): Promise<Record<string, string>> {
  const names = /(weight|absmax|nestedAbsmax|nestedMean)$/;
  const state = Object.entries(await model.stateDict()).filter(
    ([name]) => names.test(name) && name.includes(part) && !/norm|ln_|lora_/.test(name),
  );
  return Object.fromEntries(
    state.map(([name, { bytes }]) => [name, Buffer.from(bytes).toString('base64')]),
  );
}

export async function main(context: RankContext): Promise<Record<string, z.infer<typeof loaded>>> {
  const { group } = await join(context);
  const device = currentSession().backend;
  const { folder, adapter, dtype, quantize, strategies: names } = taskSchema.parse(context.data);
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
      ...(quantize === undefined ? {} : { quantize: blocks[quantize] }),
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
      frozen: await blocksIn(parallel.module),
    };
  }
  return results;
}
