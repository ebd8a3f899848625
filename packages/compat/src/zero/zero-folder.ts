import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { ModelFolder } from '@shardwise/core/extend';
import { CheckpointError } from 'shardwise';
import { brokenFile, ZeroFile } from './zero-file.ts';

/**
 * Whether DeepSpeed has written a checkpoint to this directory, or to a folder of it with the name of the tag. It may be of a
 * kind that readZeroCheckpoint refuses.
 */
export async function isDeepSpeedFolder(directory: string, tag?: string): Promise<boolean> {
  return hasModel(join(directory, tag ?? (await latestText(directory)) ?? ''));
}

async function hasModel(path: string): Promise<boolean> {
  const names = await readdir(path).catch(() => []);
  return names.some((each) => each.endsWith('_model_states.pt'));
}

/** The tag in the file `latest`. Throws CheckpointError without one. */
export async function latestTag(directory: string): Promise<string> {
  const tag = await latestText(directory);
  if (tag !== undefined && tag !== '' && !/[/\\]/.test(tag) && tag !== '..') return tag;
  throw new CheckpointError(
    {
      asked: `Reading the checkpoint of DeepSpeed in ${directory}`,
      found:
        tag === undefined
          ? 'no file "latest" with the name of one'
          : 'a file "latest" without the name of a folder',
      todo: (await hasModel(directory))
        ? `Give the folder above it, and { tag: '${basename(directory)}' }`
        : 'Give the tag, which is the name of a folder in it such as global_step100',
    },
    { path: join(directory, 'latest') },
  );
}

async function latestText(directory: string): Promise<string | undefined> {
  const text = await readFile(join(directory, 'latest'), 'utf8').catch(() => undefined);
  return text?.trim();
}

const OF_OTHER_RANKS = /(?:^|_)mp_rank_0*[1-9]\d*_/;
const MODEL_OF_ALL = 'mp_rank_00_model_states.pt';
const MODEL_OF_RANK = /^zero_pp_rank_(\d+)_mp_rank_00_model_states\.pt$/;
const OPTIMIZER_OF_RANK = /zero_pp_rank_(\d+)_mp_rank_00_optim_states\.pt$/;

/** The files of the ranks, in their order. */
export type ZeroFiles = readonly [ZeroFile, ...ZeroFile[]];

/**
 * Opens the files of the model (one, or one of each rank in stage 3) and those of the optimizer, by ranks. Throws
 * CheckpointError for a folder without them, and for a model that ranks of tensor or pipeline parallelism divide.
 */
export async function openFiles(
  folder: ModelFolder,
  path: string,
): Promise<{ readonly models: ZeroFiles; readonly optimizers: ZeroFiles }> {
  const names = await readdir(path).catch((cause: unknown) => {
    throw brokenFile(path, cause instanceof Error ? cause.message : String(cause));
  });
  if (names.some((each) => OF_OTHER_RANKS.test(each))) {
    throw brokenFile(path, 'files of several ranks of tensor or pipeline parallelism');
  }
  const byRank = async (pattern: RegExp): Promise<readonly ZeroFile[]> => {
    const rankOf = (each: string): number => Number(pattern.exec(each)?.[1] ?? Number.NaN);
    const found = names
      .filter((each) => Number.isInteger(rankOf(each)))
      .toSorted((a, b) => rankOf(a) - rankOf(b));
    const files: ZeroFile[] = [];
    for (const each of found) files.push(await ZeroFile.open(folder, each));
    return files;
  };
  const [optimizer, ...others] = await byRank(OPTIMIZER_OF_RANK);
  const [model, ...parts] = names.includes(MODEL_OF_ALL)
    ? [await ZeroFile.open(folder, MODEL_OF_ALL)]
    : await byRank(MODEL_OF_RANK);
  if (model !== undefined && optimizer !== undefined) {
    return { models: [model, ...parts], optimizers: [optimizer, ...others] };
  }
  throw brokenFile(
    path,
    model === undefined
      ? 'no files of ZeRO'
      : 'the model of stage 0, whose optimizer does not say which parameters it has',
  );
}
