import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { LoadReport, ModelFolder } from '@shardwise/core/extend';
import { diskFolder, fileAt, folderAt, isAddress, pretrainedFolderAt } from '@shardwise/core/node';
import type { PretrainedModel } from '../model/pretrained-model.ts';
import {
  fromPretrained as fromFolder,
  type FromPretrainedOptions,
  type ParallelPretrained,
  type ParallelPretrainedOptions,
} from './from-pretrained.ts';
import {
  type LoadableModel,
  loadPretrained as loadFromFolder,
  type LoadPretrainedOptions,
} from './load-pretrained.ts';

/**
 * Where a model is: the path of its folder or of its file of weights, a URL of http or https, an address such as
 * `s3://bucket/models/small`, the name of a repository of the hub, such as `organization/model`, or another folder.
 */
export type PretrainedPlace = string | ModelFolder;

/**
 * Builds the model that the config.json of a folder describes, and loads its weights. `place` may also be a file of
 * weights in the folder, and lie on a web server, in a bucket or on the hub. Initial values are drawn only if the folder lacks a tensor that may be missing, such
 * as a new head. With a strategy, it also applies the strategy: it is a collective then, and each rank allocates and
 * reads only its part. Throws ConfigError for a config that no class can compute, and the errors of loadPretrained.
 */
export async function fromPretrained(
  place: PretrainedPlace,
  options: ParallelPretrainedOptions,
): Promise<ParallelPretrained>;
export async function fromPretrained(
  place: PretrainedPlace,
  options?: FromPretrainedOptions,
): Promise<PretrainedModel>;
export async function fromPretrained(
  place: PretrainedPlace,
  options: FromPretrainedOptions = {},
): Promise<PretrainedModel | ParallelPretrained> {
  const { folder, file } = placeOf(place);
  return fromFolder(folder, { ...file, ...options });
}

/**
 * Overwrites the parameters and buffers of a model with the weights of a folder, with any strategy: each rank reads only
 * the bytes of its parts. `place` may also be a file of weights. It is a collective for models whose states
 * are sharded. A shared tensor may be in the file under one of its names. The prefix of the base model may be there or
 * not. Before anything changes, it throws a CheckpointError that lists all names that are missing, unexpected or of
 * another shape, except for those that the options allow. Throws CheckpointError for a damaged file, too.
 */
export async function loadPretrained(
  model: LoadableModel,
  place: PretrainedPlace,
  options: LoadPretrainedOptions = {},
): Promise<LoadReport> {
  const { folder, file } = placeOf(place);
  return loadFromFolder(model, folder, { ...file, ...options });
}

/** The endings of files of weights. An address cannot be asked whether it is a file. */
const WEIGHTS = /\.(safetensors|json|bin|pt|pth|gguf)$/;

function placeOf(place: PretrainedPlace): {
  readonly folder: ModelFolder;
  readonly file: { readonly file?: string };
} {
  if (typeof place !== 'string') return { folder: place, file: {} };
  if (isAddress(place)) {
    const isFile = WEIGHTS.test(place);
    if (!isFile) return { folder: folderAt(place), file: {} };
    const { folder, name } = fileAt(place);
    return { folder, file: { file: name } };
  }
  const isFile = statSync(place, { throwIfNoEntry: false })?.isFile() === true;
  if (!isFile) return { folder: pretrainedFolderAt(place), file: {} };
  return { folder: diskFolder(dirname(place)), file: { file: basename(place) } };
}
