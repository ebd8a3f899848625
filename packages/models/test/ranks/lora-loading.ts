import { createMesh } from '@shardwise/collectives';
import { manualSeed, noGrad, setRank, type Tensor } from '@shardwise/core';
import { decodeSafetensors, fromBytes, type Module } from '@shardwise/core/extend';
import { diskFolder } from '@shardwise/core/node';
import { adapterFiles, type LoraOptions, type QuantizeOptions } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import type { RankInThread } from '@shardwise/testing/node';
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

export interface LoadTask {
  readonly folder: string;
  readonly adapter: keyof typeof adapters;
  readonly dtype: 'f32' | 'bf16';
  readonly quantize?: keyof typeof blocks;
  readonly strategies: readonly StrategyName[];
}

/** What a rank has read of a folder, and what it then has. */
interface Loaded {
  readonly readBytes: number;
  /** The bytes of what this rank has of the frozen weights. */
  readonly frozenBytes: number;
  /** The dtypes of parameters that train. */
  readonly trainedDtypes: readonly string[];
  /** The tensors of the adapter, whole. */
  readonly adapter: Readonly<Record<string, readonly number[]>>;
  /** Empty for a pipeline, whose last stage alone has them. */
  readonly logits: readonly number[];
  /** The frozen tensors in blocks and their scales, whole, as text. */
  readonly frozen: Readonly<Record<string, string>>;
}

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

/** Loads a model on this rank by each strategy. */
export async function loadEach(
  { size, group, device }: RankInThread,
  { folder, adapter, dtype, quantize, strategies: names }: LoadTask,
): Promise<Readonly<Record<string, Loaded>>> {
  const results: Record<string, Loaded> = {};
  for (const name of names) {
    const [axes, make] = strategies[name];
    setRank({ device, mesh: await createMesh(group, axesOf(axes, size)) });
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
