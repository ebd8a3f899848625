import { open, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { FlightDump } from '@shardwise/collectives';
import { DataError } from '@shardwise/core/extend';
import { dumpSchema } from './dump-schema.ts';

const MAX_FILE_BYTES = 256 * 2 ** 20;
const MAX_FILES = 65_536;

export interface Dumps {
  /** The dumps, by rank in the world. */
  readonly dumps: ReadonlyMap<number, FlightDump>;
  /** The files that are not dumps, and why. */
  readonly unreadable: readonly UnreadableDump[];
}

export interface UnreadableDump {
  readonly path: string;
  readonly reason: string;
}

/**
 * Reads dumps from files, from `rank-N.json` in folders, and from the folder `flight` of run directories. Throws
 * DataError.
 */
export async function readDumps(paths: readonly string[]): Promise<Dumps> {
  const files = (await Promise.all(paths.map(findFiles))).flat();
  if (files.length === 0 || files.length > MAX_FILES) {
    throw new DataError({
      asked: `Reading the dumps of ${paths.join(', ')}`,
      found: files.length === 0 ? 'there is no rank-N.json' : `there are ${files.length} files`,
      todo: 'Give the files that the ranks of one run left, or the folder that holds them',
    });
  }
  const dumps = new Map<number, FlightDump>();
  const unreadable: UnreadableDump[] = [];
  // The dumps are read one after another, because each of them may be large.
  for (const path of files) {
    try {
      const dump = await readDump(path);
      if (dumps.has(dump.rank)) throw new RangeError(`rank ${dump.rank} has another dump`);
      dumps.set(dump.rank, dump);
    } catch (error) {
      unreadable.push({ path, reason: error instanceof Error ? error.message : String(error) });
    }
  }
  return { dumps, unreadable };
}

async function findFiles(path: string): Promise<readonly string[]> {
  let found;
  try {
    found = await stat(path);
  } catch (cause) {
    throw new DataError(
      {
        asked: `Reading the dumps of ${path}`,
        found: 'there is no such file or folder',
        todo: 'Give the run directory of a run that failed',
      },
      { path },
      { cause },
    );
  }
  if (!found.isDirectory()) return [path];
  const names = await readdir(path);
  const dumps = names.filter((name) => /^rank-\d{1,5}\.json$/.test(name));
  if (dumps.length === 0 && names.includes('flight') && basename(path) !== 'flight') {
    return findFiles(join(path, 'flight'));
  }
  return dumps.map((name) => join(path, name)).sort();
}

async function readDump(path: string): Promise<FlightDump> {
  const file = await open(path);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw new TypeError('it is no file');
    if (found.size > MAX_FILE_BYTES) {
      throw new RangeError(`it has ${found.size} bytes, and a dump at most ${MAX_FILE_BYTES}`);
    }
    const parsed = dumpSchema.safeParse(JSON.parse(await file.readFile('utf8')));
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    throw new TypeError(`it is no dump: ${issue?.path.join('.')}: ${issue?.message}`);
  } finally {
    await file.close();
  }
}
