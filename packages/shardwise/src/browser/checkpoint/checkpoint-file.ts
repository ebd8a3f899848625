import { openCheckpoint } from '../../checkpoint/load/open-checkpoint.ts';
import { joinPath, splitPath } from './page-path.ts';
import { storageFiles } from './storage-files.ts';
import { type ArchivedFile, tarOf } from './tar.ts';

/**
 * A checkpoint of the browser's storage as one file, `step-000400.tar`, for `download`. The checkpoint is found
 * as by checkpoints.load. When the file is unpacked, it is a checkpoint of `shardwise run`. Its bytes are read
 * when they are asked for. Throws CheckpointError.
 */
export async function checkpointFile(directory: string): Promise<File> {
  const files = await storageFiles();
  const { directory: folder } = await openCheckpoint(files, directory);
  const name = splitPath(folder).at(-1) ?? 'checkpoint';
  const archived: ArchivedFile[] = [];
  for (const each of await files.list(folder)) {
    const contents = await files.file(joinPath(folder, each));
    archived.push({ path: joinPath(name, each), contents });
  }
  const modifiedMs = Date.now();
  return new File([tarOf(archived, modifiedMs)], `${name}.tar`, { lastModified: modifiedMs });
}
