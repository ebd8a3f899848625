import { checkOptions, option, type OptionRules, type ProcessGroup } from '@shardwise/core/extend';
import { singleGroup } from '@shardwise/collectives';
import type { CheckpointContents } from './checkpoint-contents.ts';
import { CheckpointSaver, saveRules } from './checkpoint-saver.ts';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { type CheckpointPlace, requirePlace, writableAt } from '../places/checkpoint-place.ts';

/** Options of `saveCheckpoint`. */
export interface SaveCheckpointOptions {
  /** The ranks that save together. Default: this rank alone. */
  readonly group?: ProcessGroup;
  /** With what files are written. Default: what the folder's place needs. */
  readonly files?: CheckpointFiles;
  /** Keeps only this many checkpoints in the folder, the latest ones. Default: all. */
  readonly keep?: number;
}

const saveCheckpointRules: OptionRules<SaveCheckpointOptions> = {
  group: option.object('a process group'),
  files: option.object(),
  keep: saveRules.keep,
};

/**
 * Saves a checkpoint to a folder that the script chooses, as `context.saveCheckpoint` does to the folder of the
 * run. It is a collective of `group`, by default this rank alone. Returns the folder of the checkpoint.
 */
export async function saveCheckpoint(
  place: CheckpointPlace,
  contents: CheckpointContents,
  options: SaveCheckpointOptions = {},
): Promise<string> {
  requirePlace('checkpoints.save', place);
  checkOptions('checkpoints.save', options, saveCheckpointRules);
  const { group = singleGroup(), keep } = options;
  const { files, directory } =
    options.files === undefined || typeof place !== 'string'
      ? writableAt(place)
      : { files: options.files, directory: place };
  const saver = new CheckpointSaver({ directory, group, files });
  return saver.save(contents, keep === undefined ? {} : { keep });
}
