import { randomUUID } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { DurableFiles } from './durable-files.ts';

const TEMPORARY = /^\.writing-(.+)-(\d+)-[0-9a-f]{8}$/;
const NAME = /^step-\d{6,}(-\d+)?$/;
/** Of what another host left behind nobody can say whether it is still written. */
const STALE_MS = 24 * 60 * 60 * 1000;

/** A name for what is not finished; it says which process writes it. */
export function temporaryName(): string {
  return `.writing-${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
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
export async function removeLeftovers(files: DurableFiles, directory: string): Promise<void> {
  for (const entry of await readdir(directory)) {
    const [, host, pid] = TEMPORARY.exec(entry) ?? [];
    if (host === undefined) continue;
    const path = join(directory, entry);
    const abandoned =
      host === hostname()
        ? Number(pid) === process.pid || !isAlive(Number(pid))
        : Date.now() - (await modifiedMs(path)) > STALE_MS;
    if (abandoned) await files.removeDirectory(path);
  }
}

/** The names of the checkpoints in a folder, that written last first. */
export async function checkpointNames(directory: string): Promise<readonly string[]> {
  const names = (await readdir(directory)).filter(isCheckpointName);
  const dated = await Promise.all(
    names.map(async (name) => ({ name, ms: await modifiedMs(join(directory, name)) })),
  );
  return dated
    .toSorted((a, b) => b.ms - a.ms || (a.name < b.name ? 1 : -1))
    .map(({ name }) => name);
}

/** Leaves the `keep` checkpoints that were written last, `current` among them. */
export async function prune(
  files: DurableFiles,
  directory: string,
  keep: number,
  current: string,
): Promise<void> {
  const others = (await checkpointNames(directory)).filter((name) => name !== current);
  for (const name of others.slice(keep - 1)) {
    // Gone at once: a checkpoint of which files are missing would look like one.
    const doomed = join(directory, temporaryName());
    await files.rename(join(directory, name), doomed);
    await files.removeDirectory(doomed);
  }
}

/** Infinite where there is nothing. */
async function modifiedMs(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.mtimeMs ?? Infinity;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Another user's process cannot be signalled.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
