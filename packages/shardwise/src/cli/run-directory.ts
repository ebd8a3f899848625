import { mkdir, readdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';
import { isAddress } from '@shardwise/core/node';
import { runDirectoryName } from '../run-state/run-directory.ts';

/** Makes a folder for a run and returns its absolute path. Throws ConfigError if another run has left files there. */
export async function makeRunDirectory(
  wanted: string | undefined,
  script: string,
): Promise<string> {
  if (wanted !== undefined && isAddress(wanted)) {
    throw new ConfigError(
      {
        asked: `The run directory ${wanted}`,
        found: 'an address, and logs and the report are written to a disk',
        todo: `Give the address to --checkpoint-dir, where checkpoints then go`,
      },
      { path: wanted },
    );
  }
  const path = resolve(wanted ?? runDirectoryName(script, new Date()));
  try {
    await mkdir(dirname(path), { recursive: true });
    if (wanted === undefined) return await makeNewDirectory(path);
    await mkdir(path, { recursive: true });
  } catch (cause) {
    throw runDirectoryError(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
  const entries = await readdir(path);
  if (entries.includes('metrics.jsonl')) throw runDirectoryError(path, 'it holds a run already');
  return path;
}

/** Makes a new folder. A number is appended if another run has started in the same second. */
async function makeNewDirectory(path: string): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const candidate = attempt === 1 ? path : `${path}-${attempt}`;
    try {
      await mkdir(candidate);
      return candidate;
    } catch (error) {
      const exists = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!exists) throw error;
    }
  }
}

function runDirectoryError(path: string, found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    { asked: `Creating the run directory ${path}`, found, todo: 'Give another one with --run-dir' },
    { path },
    cause === undefined ? {} : { cause },
  );
}
