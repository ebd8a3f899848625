import { existsSync, statSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { ConfigError, type ModelFolder } from '@shardwise/core/extend';
import { diskFolder, fileAt, isAddress, pretrainedFolderAt } from '@shardwise/core/node';
import { Tokenizer } from '@shardwise/data';
import { loadTokenizer } from '@shardwise/data/node';
import { type GeneratingModel, ggufTokenizer, type PretrainedModel } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { tensorParallel } from '@shardwise/strategies';
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
  tensorParallelSize,
}: Pick<ServeOptions, 'model' | 'dtype' | 'tensorParallelSize'>): Promise<OpenedModel> {
  const { folder, file } = placeOf(place);
  const tokenizer =
    file === undefined ? await loadTokenizer(folder) : await tokenizerOfFile(folder, file);
  const own = { dtype, ...(file === undefined ? {} : { file }) };
  const opened = { tokenizer, folder, name: nameOf(place) };
  if (tensorParallelSize === 1) {
    const model = await fromPretrained(folder, own);
    return { ...opened, model, generating: model };
  }
  const parallel = await fromPretrained(folder, { ...own, strategy: tensorParallel() });
  return { ...opened, model: parallel.module, generating: parallel };
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
