import { readdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';

const LEFT = /^(?:(server)|table-[\w-]+)-(\d+)\.(?:safetensors|f32)$/;

/** Returns the directory in which the parameter servers of a run keep their data. */
export function serversDirectory(runDirectory: string): string {
  return join(runDirectory, 'servers');
}

export function snapshotName(server: number): string {
  return `server-${server}.safetensors`;
}

/**
 * Returns the directory that the servers of a run have left. `folder` is a run directory or a checkpoint in one.
 * Returns undefined if there is none.
 */
export async function leftByServers(folder: string): Promise<string | undefined> {
  // A checkpoint lies one or two levels below its run's directory.
  const run = resolve(folder);
  for (const place of [run, dirname(run), dirname(dirname(run))]) {
    const directory = serversDirectory(place);
    if ((await serversOf(directory)) > 0) return directory;
  }
  return undefined;
}

/**
 * Throws ConfigError if the directory belongs to another number of servers, which determines the range of each server.
 */
export async function requireServers(directory: string, count: number): Promise<void> {
  const found = await serversOf(directory);
  if (found === count) return;
  throw new ConfigError(
    {
      asked: `--servers ${count}, going on from ${directory}`,
      found: `what ${found} ${found === 1 ? 'server has' : 'servers have'} left`,
      todo: `Give --servers ${found}, or begin anew without --resume`,
    },
    { servers: count, found },
  );
}

/**
 * Returns how many servers have left snapshots. If there are no snapshots, returns how many have left parts of tables.
 */
async function serversOf(directory: string): Promise<number> {
  const files = await readdir(directory).catch(() => []);
  const [snapshots, tables] = [new Set<string>(), new Set<string>()];
  for (const file of files) {
    const [, snapshot, server = ''] = LEFT.exec(file) ?? [];
    if (server !== '') (snapshot === undefined ? tables : snapshots).add(server);
  }
  return snapshots.size > 0 ? snapshots.size : tables.size;
}
