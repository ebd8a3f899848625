import type { PickedFiles } from './picked-files.ts';

/**
 * Where a page finds a checkpoint: a folder of the browser's storage for the page, an archive (.tar) of a
 * checkpoint, or the files of its folder, such as those of `<input type="file" multiple>`.
 */
export type CheckpointSource = string | PickedFiles;
