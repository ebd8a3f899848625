import type { CheckpointFiles } from './checkpoint-files.ts';
import { stateName } from './state-file.ts';

const TEMPORARY = /^\.writing-(.+)-[0-9a-f]{8}$/;
const NAME = /^step-\d{6,}(-\d+)?$/;
/** Of what another host left behind nobody can say whether it is still written. */
const STALE_MS = 24 * 60 * 60 * 1000;

/** A name for what is not finished; it says who writes it. */
export function temporaryName({ writer }: CheckpointFiles): string {
  return `.writing-${writer}-${crypto.randomUUID().slice(0, 8)}`;
}

/** Whether a text is the name of a checkpoint's folder. */
export function isCheckpointName(name: string): boolean {
  return NAME.test(name);
}

/** A folder that is there stays: it may be the one that `latest` names. */
export function freeName(step: number, existing: readonly string[]): string {
  const name = `step-${String(step).padStart(6, '0')}`;
  let candidate = name;
  for (let attempt = 2; existing.includes(candidate); attempt += 1) {
    candidate = `${name}-${attempt}`;
  }
  return candidate;
}

/** Removes what saves left behind that were broken off. */
export async function removeLeftovers(files: CheckpointFiles, directory: string): Promise<void> {
  for (const entry of await files.list(directory)) {
    const [, writer] = TEMPORARY.exec(entry) ?? [];
    if (writer === undefined) continue;
    const path = files.join(directory, entry);
    const isWriting = await files.isWriting(writer);
    const isAbandoned =
      isWriting === undefined
        ? Date.now() - (await modifiedMs(files, path)) > STALE_MS
        : !isWriting;
    if (isAbandoned) await files.removeDirectory(path);
  }
}

/** The names of the checkpoints in a folder, that written last first. */
export async function checkpointNames(
  files: CheckpointFiles,
  directory: string,
): Promise<readonly string[]> {
  const names = (await files.list(directory)).filter(isCheckpointName);
  const dated = await Promise.all(
    names.map(async (name) => ({ name, ms: await modifiedMs(files, files.join(directory, name)) })),
  );
  return dated
    .toSorted((a, b) => b.ms - a.ms || (a.name < b.name ? 1 : -1))
    .map(({ name }) => name);
}

/** Leaves the `keep` checkpoints that were written last, `current` among them. */
export async function prune(
  files: CheckpointFiles,
  directory: string,
  keep: number,
  current: string,
): Promise<void> {
  const others: string[] = [];
  for (const name of await checkpointNames(files, directory)) {
    const index = files.join(files.join(directory, name), stateName);
    // A name that was given by half is no checkpoint to keep instead of a whole one.
    if (name !== current && (await files.find(index)) !== undefined) others.push(name);
  }
  for (const name of others.slice(keep - 1)) {
    // Gone at once: a checkpoint of which files are missing would look like one.
    const doomed = files.join(directory, temporaryName(files));
    await files.withdraw(files.join(directory, name), doomed, stateName);
    await files.removeDirectory(doomed);
  }
}

/** Infinite where there is nothing. */
async function modifiedMs(files: CheckpointFiles, path: string): Promise<number> {
  return (await files.find(path))?.modifiedMs ?? Infinity;
}
