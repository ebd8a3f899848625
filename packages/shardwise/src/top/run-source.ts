import { open, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { connectStore } from '@shardwise/collectives/node';
import {
  CollectiveError,
  CollectiveTimeoutError,
  ConfigError,
  type Store,
} from '@shardwise/core/extend';
import { setTimeout as delay } from 'node:timers/promises';
import { displayPath } from '../text/display-path.ts';
import {
  LAST_SNAPSHOT_KEY,
  type RunSnapshot,
  SNAPSHOT_FILE,
  SNAPSHOT_KEY,
} from './run-snapshot.ts';
import { parseSnapshot } from './snapshot-text.ts';

/** Where the snapshots of a run are. Nothing is written there. */
export interface RunSource {
  /** Throws ConfigError if there is no run, or one of another version, and CollectiveError if its host is gone. */
  read(): Promise<RunSnapshot>;
  /** Resolves to the last snapshot when the run is over. Never settles for a run that is read from its directory. */
  readonly last: Promise<RunSnapshot>;
  close(): void;
}

/** The greatest length of a snapshot in bytes. */
const MAX_BYTES = 1 << 20;
/** How long a launcher that has just begun may take until it shows its run. */
const FIRST_MS = 3000;
const RETRY_MS = 100;

/** Reads the snapshots of a run's directory, on this host or on a disk that it shares with the launcher. */
export function directorySource(directory: string): RunSource {
  const path = join(directory, SNAPSHOT_FILE);
  let isFirst = true;
  return {
    last: new Promise<never>(() => {}),
    close: () => {},
    read: async () => {
      const deadline = performance.now() + (isFirst ? FIRST_MS : 0);
      for (;;) {
        const text = await readLimited(path);
        if (text !== undefined) {
          isFirst = false;
          return parseSnapshot(text, displayPath(directory));
        }
        if (!(await mayBegin(directory)) || performance.now() > deadline) {
          throw await noRunError(directory);
        }
        await delay(RETRY_MS);
      }
    },
  };
}

/** Whether a launcher may have made the directory and not have written to it yet. */
async function mayBegin(directory: string): Promise<boolean> {
  const entries = await readdir(directory).catch(() => undefined);
  return entries !== undefined && entries.every((entry) => entry === 'metrics.jsonl');
}

/** Reads a file. Returns undefined if there is none. */
async function readLimited(path: string): Promise<string | undefined> {
  const file = await open(path).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw unreadableError(path, String(error), error);
  });
  if (file === undefined) return undefined;
  try {
    const buffer = new Uint8Array(MAX_BYTES + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length);
    if (bytesRead > MAX_BYTES) throw unreadableError(path, `more than ${MAX_BYTES} bytes`);
    return new TextDecoder().decode(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

function unreadableError(path: string, found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    { asked: `Reading ${path}`, found, todo: 'Give the directory of a run' },
    { path },
    { cause },
  );
}

async function noRunError(directory: string): Promise<ConfigError> {
  const entries = await readdir(directory).catch(() => undefined);
  const asked = `Showing the run of ${displayPath(directory)}`;
  if (entries === undefined) {
    return new ConfigError(
      {
        asked,
        found: 'there is no such directory',
        todo: 'Give a run directory, such as runs/gpt-20260131-235959, or HOST:PORT of its --rdzv',
      },
      { directory },
    );
  }
  return entries.includes('metrics.jsonl')
    ? new ConfigError(
        {
          asked,
          found: `a run without ${SNAPSHOT_FILE}, which launchers of this version write`,
          todo: 'Use the version of shardwise that runs it; report.html shows a run that is over',
        },
        { directory },
      )
    : new ConfigError(
        {
          asked,
          found: 'no run whose steps are shown on this host',
          todo: 'Give its directory on the host with rank 0, or HOST:PORT of its --rdzv',
        },
        { directory },
      );
}

/** Returns the directory of the run in `runs` that was shown last. Throws ConfigError if there is none. */
export async function latestRun(): Promise<string> {
  const entries = await readdir('runs').catch(() => []);
  const found = await Promise.all(
    entries.map(async (entry) => {
      const directory = join('runs', entry);
      const file = await stat(join(directory, SNAPSHOT_FILE)).catch(() => undefined);
      return file === undefined ? [] : [{ directory, atMs: file.mtimeMs }];
    }),
  );
  const latest = found.flat().toSorted((a, b) => b.atMs - a.atMs)[0];
  if (latest !== undefined) return latest.directory;
  throw new ConfigError(
    {
      asked: 'Showing the latest run',
      found: `none in ${join(basename(process.cwd()), 'runs')}`,
      todo: 'Give its directory, or HOST:PORT of its --rdzv',
    },
    {},
  );
}

/** How long the launcher may take to answer. */
const ANSWER_MS = 5000;

export interface StoreSourceOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
}

/**
 * Reads the snapshots of a run of several hosts from their store. It is let in by the job's secret, as they are. Rejects
 * with CollectiveError if the secrets differ, and with CollectiveTimeoutError if no launcher is there.
 */
export async function storeSource(options: StoreSourceOptions): Promise<RunSource> {
  const store = await connectStore({ ...options, timeoutMs: ANSWER_MS });
  const where = `${options.host}:${options.port}`;
  let over: RunSnapshot | undefined;
  const last = store.get(LAST_SNAPSHOT_KEY, { timeoutMs: Infinity }).then((bytes) => {
    over = decoded(bytes, where);
    return over;
  });
  // Whoever reads notices the loss of the store.
  last.catch(() => undefined);
  return {
    last,
    close: () => store.close(),
    read: async () => over ?? decoded(await latestOf(store, where), where),
  };
}

async function latestOf(store: Store, where: string): Promise<Uint8Array> {
  try {
    return await store.get(SNAPSHOT_KEY, { timeoutMs: ANSWER_MS });
  } catch (cause) {
    if (!CollectiveTimeoutError.isInstance(cause)) throw goneError(where, cause);
    throw new ConfigError(
      {
        asked: `Showing the run at ${where}`,
        found: 'a store in which no launcher of this version shows a run',
        todo: 'Use the version of shardwise that the run uses, and the address that it has as --rdzv',
      },
      { where },
      { cause },
    );
  }
}

function goneError(where: string, cause: unknown): CollectiveError {
  return new CollectiveError(
    {
      asked: `Showing the run at ${where}`,
      found: 'its launcher has closed the connection',
      todo: 'The run was killed, or its host is gone; the launchers of the other hosts say more',
    },
    { where },
    { cause },
  );
}

function decoded(bytes: Uint8Array, where: string): RunSnapshot {
  return parseSnapshot(new TextDecoder().decode(bytes), where);
}
