import {
  checkOptions,
  ConfigError,
  currentSession,
  type DType,
  type HeldChunk,
  isWritableFolder,
  Module,
  option,
  type OptionRules,
  placeInMesh,
  planChunks,
  type Tensor,
  type WritableFolder,
} from '@shardwise/core/extend';
import { isAddress, writableFolderAt } from '@shardwise/core/node';
import { z } from 'zod';
import { adapterParameters, isLoraLayer } from '../lora/lora-layer.ts';
import { isKeptInBlocks } from '../quantized/kept-in-blocks.ts';
import { PretrainedModel } from '../model/pretrained-model.ts';
import { diskWriter } from './disk-writer.ts';
import { folderWriter } from './folder-writer.ts';
import { type HeldTensors, heldTensors } from './held-tensors.ts';
import type { LoadableModel } from './load-pretrained.ts';
import { onMesh } from './on-mesh.ts';
import { unstackTensors } from './unstack-tensors.ts';
import { shardsOf, type WrittenTensor } from './shards.ts';

/** Options of `savePretrained`. */
export interface SavePretrainedOptions {
  /** The most bytes of a file. A larger tensor has a file of its own. Default: 5 GB, as in Python. */
  readonly maxShardBytes?: number;
  /**
   * The dtype of all floats in the files. They are rounded to it; a finite number that would become infinite is an error.
   * Default: each keeps its dtype.
   */
  readonly dtype?: 'f32' | 'bf16' | 'f16';
}

const rules: OptionRules<SavePretrainedOptions> = {
  maxShardBytes: option.positive,
  dtype: option.oneOf('f32', 'bf16', 'f16'),
};

const saveRules: OptionRules<{
  readonly model: LoadableModel;
  readonly place: string | WritableFolder;
}> = {
  model: option.required({
    fits: (value): value is LoadableModel =>
      value instanceof Module || (value instanceof Object && 'module' in value),
    expected: 'a model, or what parallelize() made of one',
  }),
  place: option.required({
    fits: (value): value is string | WritableFolder =>
      (typeof value === 'string' && value !== '') || isWritableFolder(value),
    expected: 'a path, an address of a bucket, or a folder to which files can be written',
  }),
};

const MAX_SHARD_BYTES = 5e9;

const rangeSchema = z.object({ start: z.int().nonnegative(), stop: z.int().nonnegative() });
const chunkSchema = z.object({
  name: z.string(),
  dtype: z.enum(['f64', 'f32', 'f16', 'bf16', 'i64', 'i32', 'u8', 'bool']),
  shape: z.array(z.int().nonnegative()),
  box: z.array(rangeSchema),
  start: z.int().nonnegative(),
  stop: z.int().nonnegative(),
});

/**
 * Saves a model to a folder that Python's `transformers` opens: safetensors files, an index if there are several, and
 * config.json. The folder is a path, an address such as `s3://bucket/models/small`, or another folder to which files can be
 * written. It works with any strategy, and is a collective of all ranks of the mesh, which must have the folder in common.
 * Each rank writes parts that it has; no rank collects the model. The files are the same byte for byte, whatever the
 * strategy and the number of ranks are. Weights that were there before are replaced when the new ones are complete; if the
 * config changes, there is no model in a bucket for that moment. After mergeLora, the weights contain the adapters, and
 * the files are those of a model without adapters. Throws ConfigError for adapters that are apart and for weights in
 * blocks of few bits, and CheckpointError on all ranks if one of them fails.
 */
export async function savePretrained(
  model: LoadableModel,
  place: string | WritableFolder,
  options: SavePretrainedOptions = {},
): Promise<void> {
  checkOptions('savePretrained', { model, place }, saveRules);
  checkOptions('savePretrained', options, rules);
  const { maxShardBytes = MAX_SHARD_BYTES, dtype } = options;
  const module = model instanceof Module ? model : model.module;
  const writer =
    typeof place === 'string' && !isAddress(place)
      ? diskWriter(place)
      : folderWriter(writableFolderAt('to save a model', place));
  requireNumbers(module, writer.place);
  const merged = mergedAdapters(module, writer.place);
  const shared = {
    asked: `to save a model to ${writer.place}`,
    todo: 'See to the cause, and save again',
  };
  const { rank } = placeInMesh(currentSession().mesh);
  let own: HeldTensors = { tensors: [], chunks: [] };
  const held = await onMesh(shared, chunkSchema.array(), async () => {
    own = unstackTensors(module, heldTensors(module, dtype, rank === 0, merged));
    return own.chunks.map(chunkOf);
  });
  const config = configOf(module, own.tensors);
  let files = { ...shardsOf(own.tensors, maxShardBytes), config };
  const chunks = planChunks(held)[rank] ?? [];
  try {
    const [version = ''] = await onMesh(shared, z.string(), async () =>
      rank === 0 ? writer.prepare(files) : '',
    );
    if (version !== '') files = { ...shardsOf(own.tensors, maxShardBytes, version), config };
    await onMesh(shared, z.null(), async () => {
      await writer.write(files, chunks, own.chunks);
      return null;
    });
  } catch (error) {
    // The error that comes first is the one to tell.
    if (rank === 0) await writer.discard(files).catch(() => undefined);
    throw error;
  }
  await onMesh(shared, z.null(), async () => {
    if (rank === 0) await writer.publish(files);
    return null;
  });
}

/** Throws ConfigError for weights in blocks of few bits, which other programs would take for numbers. */
function requireNumbers(model: Module, path: string): void {
  const found = model.namedModules().find(([, module]) => isKeptInBlocks(module));
  if (found === undefined) return;
  throw new ConfigError(
    {
      asked: `to save a model to ${path}`,
      found: `'${found[0]}', whose weight is kept in blocks of few bits`,
      todo: 'Save its adapter with saveAdapter, or load the model without quantization',
    },
    { path, module: found[0] },
  );
}

/**
 * Returns the parameters of adapters that are in the weights of their layers. Throws ConfigError for an adapter that is
 * apart, which other programs would not compute.
 */
function mergedAdapters(model: Module, path: string): ReadonlySet<Tensor> {
  const found = new Set<Tensor>();
  for (const [name, module] of model.namedModules()) {
    if (!isLoraLayer(module)) continue;
    if (module.merged === null) throw apartError(path, name);
    for (const parameter of adapterParameters(module)) found.add(parameter);
  }
  return found;
}

function apartError(path: string, module: string): ConfigError {
  return new ConfigError(
    {
      asked: `to save a model to ${path}`,
      found: `'${module}', whose adapter is apart from its weight`,
      todo: 'Call mergeLora before, or save the adapter alone with saveAdapter',
    },
    { path, module },
  );
}

function chunkOf({ name, dtype, shape, box, start, stop }: HeldChunk): z.infer<typeof chunkSchema> {
  return { name, dtype, shape: [...shape], box: [...box], start, stop };
}

/** PyTorch's names of the dtypes that models have. */
const torchNames: ReadonlyMap<DType, string> = new Map([
  ['f64', 'float64'],
  ['f32', 'float32'],
  ['bf16', 'bfloat16'],
  ['f16', 'float16'],
]);

/** The contents of config.json, with the dtype of the files. Null for a module that has no config. */
function configOf(module: Module, tensors: readonly WrittenTensor[]): string | null {
  if (!(module instanceof PretrainedModel)) return null;
  const { torch_dtype: _, ...config } = module.configJson();
  const dtype = tensors
    .map((tensor) => torchNames.get(tensor.dtype))
    .find((name) => name !== undefined);
  // Python, too, sorts the keys. It takes null for a value of rope_theta, and only what is left out for the default.
  const entries = Object.entries({ ...config, dtype })
    .filter(([key, value]) => value !== null || !key.startsWith('rope_'))
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
}
