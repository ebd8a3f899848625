import {
  CheckpointError,
  type ModelFolder,
  pathIn,
  type RandomAccessFile,
} from '@shardwise/core/extend';

/**
 * A folder whose files must stay as they are: a file that is opened again, after its header was read, must be the same
 * version. Throws CheckpointError on opening for another one. A file of the disk has no version.
 */
export function sameVersions(folder: ModelFolder): ModelFolder {
  const versions = new Map<string, string>();
  return {
    ...folder,
    async open(name): Promise<RandomAccessFile | undefined> {
      const file = await folder.open(name);
      if (file?.version === undefined) return file;
      const known = versions.get(name) ?? file.version;
      versions.set(name, known);
      if (file.version === known) return file;
      await file.close();
      throw new CheckpointError(
        {
          asked: `to read ${pathIn(folder, name)}`,
          found: `version ${file.version} instead of ${known}`,
          todo: 'Load the model again, and keep its files while they are in use',
        },
        { name },
      );
    },
  };
}
