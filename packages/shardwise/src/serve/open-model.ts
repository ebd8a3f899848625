import { existsSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { ConfigError, type ModelFolder } from '@shardwise/core/extend';
import { diskFolder, fileAt, isAddress, pretrainedFolderAt } from '@shardwise/core/node';
import { Tokenizer } from '@shardwise/data';
import { loadTokenizer } from '@shardwise/data/node';
import {
  type AdapterFiles,
  type AdapterStack,
  type GeneratingModel,
  ggufTokenizer,
  type PretrainedModel,
  stackAdapters,
} from '@shardwise/models';
import { fromPretrained, readAdapter } from '@shardwise/models/node';
import { parallelize, tensorParallel } from '@shardwise/strategies';
import type { ServeOptions } from './serve-options.ts';

/** A model, its tokenizer, and the folder of both. */
export interface OpenedModel {
  readonly model: PretrainedModel;
  /** What computes texts: the model, or this rank's part of it. */
  readonly generating: GeneratingModel;
  readonly tokenizer: Tokenizer;
  readonly folder: ModelFolder;
  /** What requests call it, if the options do not say it. */
  readonly name: string;
  /** Null if it has none. */
  readonly adapters: AdapterStack | null;
}

/** Where a model is. `file` is the name of its GGUF file. */
interface ModelPlace {
  readonly folder: ModelFolder;
  readonly file: string | undefined;
}

/**
 * Loads a model and its tokenizer. A GGUF file has both. Each rank of a group reads its part. The tokenizer comes first, because weights take longer. Throws
 * ConfigError for a place that is not there, DataError for a folder without a tokenizer, and the errors of fromPretrained.
 */
export async function openModel({
  model: place,
  dtype,
  quantized,
  loraModules,
  tensorParallelSize,
}: Pick<
  ServeOptions,
  'model' | 'dtype' | 'quantized' | 'loraModules' | 'tensorParallelSize'
>): Promise<OpenedModel> {
  const adapterPlaces = loraModules.map(adapterPlaceOf);
  const { folder, file } = placeOf(place);
  if (quantized && file === undefined) throw noFileOfBlocks(folder);
  const tokenizer =
    file === undefined ? await loadTokenizer(folder) : await tokenizerOfFile(folder, file);
  const own = { dtype, quantized, ...(file === undefined ? {} : { file }) };
  const opened = { tokenizer, folder, name: nameOf(place), adapters: null };
  if (tensorParallelSize > 1 && adapterPlaces.length === 0) {
    const parallel = await fromPretrained(folder, { ...own, strategy: tensorParallel() });
    return { ...opened, model: parallel.module, generating: parallel };
  }
  const model = await fromPretrained(folder, own);
  if (adapterPlaces.length === 0) return { ...opened, model, generating: model };
  const files: Record<string, AdapterFiles> = {};
  for (const [adapter, path] of adapterPlaces) {
    if (Object.hasOwn(files, adapter)) throw twoAdapters(adapter);
    files[adapter] = await readAdapter(path);
  }
  // Layers get adapters before ranks share them out, so each rank reads all of the model.
  const adapters = await stackAdapters(model, files);
  const generating = tensorParallelSize > 1 ? await parallelize(model, tensorParallel()) : model;
  return { ...opened, model, generating, adapters };
}

function adapterPlaceOf(text: string): readonly [name: string, path: string] {
  const [, name, path] = /^([^=]{1,200})=(.+)$/.exec(text) ?? [];
  if (name !== undefined && path !== undefined) return [name, path];
  throw new ConfigError(
    {
      asked: `to serve an adapter ${text}`,
      found: 'no name and path',
      todo: 'Write --lora-modules name=path',
    },
    { text },
  );
}

function placeOf(place: string): ModelPlace {
  if (isAddress(place)) {
    if (!place.endsWith('.gguf')) return { folder: pretrainedFolderAt(place), file: undefined };
    const { folder, name } = fileAt(place);
    return { folder, file: name };
  }
  const found = statSync(place, { throwIfNoEntry: false });
  if (found?.isFile() === true) {
    if (place.endsWith('.gguf'))
      return { folder: diskFolder(dirname(place)), file: basename(place) };
    throw new ConfigError(
      {
        asked: `to serve ${place}`,
        found: 'a file that is not of GGUF',
        todo: 'Give the folder of a model, which has config.json and tokenizer.json, or a GGUF file',
      },
      { place },
    );
  }
  const folder = pretrainedFolderAt(place);
  // A name of the hub is no path.
  if (found !== undefined || folder.place !== place || existsSync(place)) {
    return { folder, file: undefined };
  }
  throw new ConfigError(
    {
      asked: `to serve ${place}`,
      found: 'no such folder or file',
      todo: 'Give the folder of a model, which has config.json and tokenizer.json, or a GGUF file',
    },
    { place },
  );
}

function noFileOfBlocks({ place }: ModelFolder): ConfigError {
  return new ConfigError(
    {
      asked: `--quantized with ${place}`,
      found: 'no GGUF file, which alone has weights in blocks of few bits',
      todo: 'Give the path of a GGUF file of Q8_0, Q4_K_M or the like, or leave --quantized out',
    },
    { place },
  );
}

function twoAdapters(name: string): ConfigError {
  return new ConfigError(
    {
      asked: `to serve the adapter '${name}'`,
      found: 'two of this name',
      todo: 'Give each --lora-modules a name of its own',
    },
    { name },
  );
}

/** The tokenizer beside a GGUF file, or else the one in it, of which some kinds are not known here. */
async function tokenizerOfFile(folder: ModelFolder, file: string): Promise<Tokenizer> {
  const beside = await folder.readText('tokenizer.json');
  if (beside !== undefined) return loadTokenizer(folder);
  const { tokenizer, config } = await ggufTokenizer(folder, file);
  return Tokenizer.fromJson(tokenizer, { name: file, config });
}

function nameOf(place: string): string {
  const path = isAddress(place) ? place.replace(/[?#].*$/, '') : resolve(place);
  return basename(path).replace(/\.gguf$/, '') || 'model';
}
