import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * Calls `make` once in a run of tests, with an empty folder. Returns the folder when it is done. The files of tests share
 * a temporary folder, in which it is marked as made.
 */
export async function oncePerRun(
  name: string,
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const mark = join(tmpdir(), name);
  const folder = join(mark, 'made');
  const done = join(mark, 'done');
  const failed = join(mark, 'failed');
  if (!isMade(mark)) {
    // Another file of tests is making it.
    while (!existsSync(done) && !existsSync(failed)) await pause(200);
    if (existsSync(failed)) throw new Error(`another file of tests could not make: ${name}`);
    return folder;
  }
  try {
    mkdirSync(folder);
    await make(folder);
    writeFileSync(done, '');
  } catch (error) {
    writeFileSync(failed, '');
    throw error;
  }
  return folder;
}

/** Makes a folder. Returns false if it is there. */
function isMade(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}
