import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  checkOptions,
  type Chunk,
  commonRuns,
  ConfigError,
  type DType,
  dtypes,
  type HeldChunk,
  Module,
  option,
  type OptionRules,
  planChunks,
  sameBox,
  type TensorChunk,
  wholeChunk,
} from '@shardwise/core/extend';
import { syncDirectory, writeAt } from '@shardwise/core/node';
import { z } from 'zod';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import { PretrainedModel } from '../model/pretrained-model.ts';
import { type HeldTensors, heldTensors } from './held-tensors.ts';
import type { LoadableModel } from './load-pretrained.ts';
import { onMesh, rankInMesh } from './on-mesh.ts';
import { unstackTensors } from './unstack-tensors.ts';
import { type Shard, shardsOf, type WrittenTensor } from './shards.ts';

/** Options of `savePretrained`. */
export interface SavePretrainedOptions {
  /** The most bytes of a file. A larger tensor has a file of its own. Default: 5 GB, as in Python. */
  readonly maxShardBytes?: number;
  /** The dtype of all floats in the files. They are rounded to it. Default: each keeps its dtype. */
  readonly dtype?: 'f32' | 'bf16' | 'f16';
}

const rules: OptionRules<SavePretrainedOptions> = {
  maxShardBytes: option.positive,
  dtype: option.oneOf('f32', 'bf16', 'f16'),
};

const saveRules: OptionRules<{ readonly model: LoadableModel; readonly path: string }> = {
  model: option.required({
    fits: (value): value is LoadableModel =>
      value instanceof Module || (value instanceof Object && 'module' in value),
    expected: 'a model, or what parallelize() made of one',
  }),
  path: option.required(option.nonEmptyText),
};

const MAX_SHARD_BYTES = 5e9;
const INDEX_NAME = 'model.safetensors.index.json';
const CONFIG_NAME = 'config.json';
/** The files of weights that this function writes. */
const weightFile = /^model(-\d{5}-of-\d{5})?\.safetensors$/;

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
 * config.json. It works with any strategy, and is a collective of all ranks of the mesh, which must have the folder in
 * common. Each rank writes parts that it has; no rank collects the model. The files are the same byte for byte,
 * whatever the strategy and the number of ranks are. Weights that were there before are replaced. Throws ConfigError
 * for a model with weights in blocks of few bits, and CheckpointError on all ranks if one of them fails.
 */
export async function savePretrained(
  model: LoadableModel,
  path: string,
  options: SavePretrainedOptions = {},
): Promise<void> {
  checkOptions('savePretrained', { model, path }, saveRules);
  checkOptions('savePretrained', options, rules);
  const { maxShardBytes = MAX_SHARD_BYTES, dtype } = options;
  const module = model instanceof Module ? model : model.module;
  requireNumbers(module, path);
  const shared = { asked: `to save a model to ${path}`, todo: 'See to the cause, and save again' };
  const rank = rankInMesh();
  let own: HeldTensors = { tensors: [], chunks: [] };
  const held = await onMesh(shared, chunkSchema.array(), async () => {
    own = unstackTensors(module, heldTensors(module, dtype, rank === 0));
    return own.chunks.map(chunkOf);
  });
  const { shards, index } = shardsOf(own.tensors, maxShardBytes);
  const chunks = planChunks(held)[rank] ?? [];
  try {
    await onMesh(shared, z.null(), async () => {
      if (rank === 0) await createFiles(path, shards);
      return null;
    });
    await onMesh(shared, z.null(), async () => {
      await writeChunks(path, shards, chunks, own.chunks);
      return null;
    });
  } catch (error) {
    // The error that comes first is the one to tell.
    if (rank === 0) await removeTemporary(path, shards).catch(() => undefined);
    throw error;
  }
  await onMesh(shared, z.null(), async () => {
    if (rank === 0) await publish(path, shards, index, configOf(module, own.tensors));
    return null;
  });
}

/** Throws ConfigError for weights in blocks of few bits, which other programs would take for numbers. */
function requireNumbers(model: Module, path: string): void {
  const found = model.namedModules().find(([, module]) => module instanceof QuantizedLinear);
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

/** The name of a file until all ranks have written to it. */
function temporaryPath(path: string, { fileName }: Shard): string {
  return join(path, `${fileName}.unfinished`);
}

async function createFiles(path: string, shards: readonly Shard[]): Promise<void> {
  await mkdir(path, { recursive: true });
  for (const shard of shards) {
    await using file = await open(temporaryPath(path, shard), 'w');
    await writeAt(file, shard.header, 0);
    await file.truncate(shard.byteLength);
  }
}

/** Writes the chunks of this rank to their places in the files. One tensor's part is in memory at a time. */
async function writeChunks(
  path: string,
  shards: readonly Shard[],
  chunks: readonly TensorChunk[],
  own: readonly HeldChunk[],
): Promise<void> {
  const held = Map.groupBy(own, ({ name }) => name);
  const byName = Map.groupBy(chunks, ({ name }) => name);
  for (const shard of shards) {
    const here = [...byName].filter(([name]) => shard.byteOffsets.has(name));
    if (here.length === 0) continue;
    await using file = await open(temporaryPath(path, shard), 'r+');
    for (const [name, parts] of here) {
      const start = shard.byteOffsets.get(name) ?? 0;
      for (const chunk of parts) {
        const source = held.get(name)?.find((each) => contains(each, chunk));
        if (source === undefined) throw new RangeError(`no part of ${name} to write`);
        await writeChunk(file, start, chunk, source);
      }
    }
    await file.sync();
  }
}

function contains(held: Chunk, { box, start, stop }: Chunk): boolean {
  return sameBox(held.box, box) && held.start <= start && stop <= held.stop;
}

async function writeChunk(
  file: Parameters<typeof writeAt>[0],
  fileOffset: number,
  chunk: TensorChunk,
  source: HeldChunk,
): Promise<void> {
  const elementBytes = dtypes[chunk.dtype].bytes;
  const bytes = await source.read();
  const shift = chunk.start - source.start;
  for (const { first, second, count } of commonRuns(wholeChunk(chunk.shape), chunk)) {
    const from = (second + shift) * elementBytes;
    const run = bytes.subarray(from, from + count * elementBytes);
    await writeAt(file, run, fileOffset + first * elementBytes);
  }
}

/** Gives the files their names, and removes weights of an earlier save, which a reader could take for the new ones. */
async function publish(
  path: string,
  shards: readonly Shard[],
  index: string | null,
  config: string | null,
): Promise<void> {
  // Without index, a reader that comes now finds no model instead of a mixture of two.
  await rm(join(path, INDEX_NAME), { force: true });
  const names = new Set(shards.map(({ fileName }) => fileName));
  for (const name of await readdir(path)) {
    if (weightFile.test(name) && !names.has(name)) await rm(join(path, name));
  }
  for (const shard of shards) {
    await rename(temporaryPath(path, shard), join(path, shard.fileName));
  }
  if (config !== null) await writeFile(join(path, CONFIG_NAME), config);
  if (index !== null) await writeFile(join(path, INDEX_NAME), index);
  await syncDirectory(path);
}

async function removeTemporary(path: string, shards: readonly Shard[]): Promise<void> {
  for (const shard of shards) await rm(temporaryPath(path, shard), { force: true });
}
