import type { CheckpointFiles, ReadableFiles } from './checkpoint-files.ts';
import { stateName } from '../format/index-file.ts';

const TEMPORARY = /^\.writing-(.+)-[0-9a-f]{8}$/;
const NAME = /^step-\d{6,}(-\d+)?$/;
/**
 * The age at which an unfinished folder counts as abandoned if it is unknown whether its writer still runs, as on
 * another host.
 */
const STALE_MS = 24 * 60 * 60 * 1000;

/** Returns a name for an unfinished folder. It contains the name of the writer. */
export function temporaryName({ writer }: CheckpointFiles): string {
  return `.writing-${writer}-${crypto.randomUUID().slice(0, 8)}`;
}

/** Whether a text is the name of a checkpoint's folder. */
export function isCheckpointName(name: string): boolean {
  return NAME.test(name);
}

/**
 * Returns a name for the checkpoint of a step that no existing folder has. An existing folder must stay, because
 * `latest` may name it.
 */
export function freeName(step: number, existing: readonly string[]): string {
  const name = `step-${String(step).padStart(6, '0')}`;
  let candidate = name;
  for (let attempt = 2; existing.includes(candidate); attempt += 1) {
    candidate = `${name}-${attempt}`;
  }
  return candidate;
}

/** Removes the unfinished folders of interrupted saves. */
export async function removeLeftovers(files: CheckpointFiles, directory: string): Promise<void> {
  for (const entry of await files.list(directory)) {
    const path = files.join(directory, entry);
    const writer = await writerOf(files, entry, path);
    if (writer === undefined) continue;
    const isWriting = await files.isWriting(writer);
    const isAbandoned =
      isWriting === undefined
        ? Date.now() - (await modifiedMs(files, path)) > STALE_MS
        : !isWriting;
    if (isAbandoned) await files.removeDirectory(path);
  }
}

/** Returns the writer of an unfinished folder. Returns undefined for another entry. */
async function writerOf(
  files: CheckpointFiles,
  entry: string,
  path: string,
): Promise<string | undefined> {
  const [, writer] = TEMPORARY.exec(entry) ?? [];
  if (writer !== undefined || files.claim === undefined || !isCheckpointName(entry)) return writer;
  const isWhole = (await files.find(files.join(path, stateName))) !== undefined;
  return isWhole ? undefined : '';
}

/** Returns the names of the checkpoints in a folder, the last written first. */
export async function checkpointNames(
  files: ReadableFiles,
  directory: string,
): Promise<readonly string[]> {
  const names = ((await files.list?.(directory)) ?? []).filter(isCheckpointName);
  const dated = await Promise.all(
    names.map(async (name) => ({ name, ms: await modifiedMs(files, files.join(directory, name)) })),
  );
  return dated
    .toSorted((a, b) => b.ms - a.ms || (a.name < b.name ? 1 : -1))
    .map(({ name }) => name);
}

/** Removes all checkpoints but the `keep` that were written last. `current` is one of those that stay. */
export async function prune(
  files: CheckpointFiles,
  directory: string,
  keep: number,
  current: string,
): Promise<void> {
  const others: string[] = [];
  for (const name of await checkpointNames(files, directory)) {
    const index = files.join(files.join(directory, name), stateName);
    // A folder without an index is not a whole checkpoint, so it must not take the place of one.
    if (name !== current && (await files.find(index)) !== undefined) others.push(name);
  }
  for (const name of others.slice(keep - 1)) {
    // The folder is renamed first. With only some of its files removed it would still look like a checkpoint.
    const doomed = files.join(directory, temporaryName(files));
    await files.withdraw(files.join(directory, name), doomed, stateName);
    await files.removeDirectory(doomed);
  }
}

/** Returns Infinity if there is nothing at the path. */
async function modifiedMs(files: ReadableFiles, path: string): Promise<number> {
  return (await files.find(path))?.modifiedMs ?? Infinity;
}
