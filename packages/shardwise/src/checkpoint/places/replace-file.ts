import { dirname, join } from 'node:path';
import { CheckpointError } from '@shardwise/core/extend';
import { temporaryName } from './checkpoint-folders.ts';
import type { CheckpointFiles } from './checkpoint-files.ts';

/**
 * Writes a file completely or not at all, and replaces an existing one. Throws a CheckpointError that names `asked` if
 * it can't be written.
 */
export async function replaceFile(
  asked: string,
  path: string,
  contents: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  files: CheckpointFiles,
): Promise<void> {
  const temporary = join(dirname(path), temporaryName(files));
  try {
    await files.writeFile(temporary, contents);
    await files.rename(temporary, path);
    await files.syncDirectory(dirname(path));
  } catch (cause) {
    await files.removeDirectory(temporary).catch(() => undefined);
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(
      {
        asked,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Give a file in a folder that is there and has room',
      },
      { path },
      { cause },
    );
  }
}
