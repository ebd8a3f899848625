import { checkOptions, type ModelFolder, option, type OptionRules } from '@shardwise/core/extend';
import { folderAt, isAddress, writableFolderAt } from '@shardwise/core/node';
import type { CheckpointFiles, ReadableFiles } from './checkpoint-files.ts';
import { diskFiles } from './disk-files.ts';
import { bucketFiles, folderFiles } from './folder-files.ts';

/**
 * Where checkpoints are: the path of a folder, a URL of http or https, an address such as `s3://bucket/runs/1`, or another
 * folder, such as that of `httpFolder` or `s3Folder`.
 */
export type CheckpointPlace = string | ModelFolder;

const placeRules: OptionRules<{ readonly path: CheckpointPlace }> = {
  path: option.required({
    fits: (value): value is CheckpointPlace =>
      (typeof value === 'string' && value !== '') ||
      (typeof value === 'object' && value !== null && 'readText' in value && 'open' in value),
    expected: 'a path, an address, or a folder',
  }),
};

/** Throws ConfigError for what is no place of checkpoints. */
export function requirePlace(of: string, path: CheckpointPlace): void {
  checkOptions(of, { path }, placeRules);
}

/** A folder, and the files of the place where it is. */
interface PlacedFolder<Files extends ReadableFiles> {
  readonly files: Files;
  readonly directory: string;
}

/** What checkpoints of a place are read with. Throws ConfigError for an address of another scheme. */
export function readableAt(place: CheckpointPlace): PlacedFolder<ReadableFiles> {
  if (typeof place === 'string' && !isAddress(place)) return { files: diskFiles, directory: place };
  const folder = typeof place === 'string' ? folderAt(place) : place;
  return { files: folderFiles(folder), directory: folder.place };
}

/** What checkpoints of a place are written with. Throws ConfigError for a place that can only be read. */
export function writableAt(place: CheckpointPlace): PlacedFolder<CheckpointFiles> {
  if (typeof place === 'string' && !isAddress(place)) return { files: diskFiles, directory: place };
  const folder = writableFolderAt('to save checkpoints', place);
  return { files: bucketFiles(folder), directory: folder.place };
}
