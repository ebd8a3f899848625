import { link, mkdir, open, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CheckpointError } from '../spec/errors.ts';

/** How often a holder says that it is there. */
const BEAT_MS = 2000;
/** How long a holder may say nothing until the lock counts as abandoned. */
const STALE_MS = 30_000;
const POLL_MS = 100;

/**
 * Does `work` while no other process or thread that asks for the same lock does its own. Those that wait when the work of
 * the holder fails throw a CheckpointError that says why, and do not try it again. A lock is a file; that of a process which
 * has ended is taken over.
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  const holder = `${hostname()} ${process.pid} ${crypto.randomUUID()}`;
  const failure = `${path}.failed`;
  const begin = Date.now();
  while (!(await take(path, holder))) {
    await removeIfAbandoned(path);
    await delay(POLL_MS);
    await throwFailure(failure, begin);
  }
  const beat = setInterval(() => {
    const now = new Date();
    void utimes(path, now, now).catch(() => undefined);
  }, BEAT_MS);
  try {
    const result = await work();
    await rm(failure, { force: true });
    return result;
  } catch (error) {
    await writeFile(failure, error instanceof Error ? error.message : String(error)).catch(
      () => undefined,
    );
    throw error;
  } finally {
    clearInterval(beat);
    if ((await contents(path)) === holder) await rm(path, { force: true });
  }
}

async function take(path: string, holder: string): Promise<boolean> {
  try {
    await using file = await open(path, 'wx');
    await file.writeFile(holder);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

async function removeIfAbandoned(path: string): Promise<void> {
  const [found, holder] = [await stat(path).catch(() => undefined), await contents(path)];
  if (found === undefined || holder === undefined) return;
  const [host = '', pid = ''] = holder.split(' ');
  const hasEnded = host === hostname() && !isAlive(Number(pid));
  if (!hasEnded && Date.now() - found.mtimeMs < STALE_MS) return;
  // Two that find the same lock abandoned rename it, and only one of them succeeds.
  const aside = `${path}.${crypto.randomUUID()}`;
  await rename(path, aside).catch(() => undefined);
  const renamed = await contents(aside);
  // What the slower one has renamed is the lock of the faster one, which gets it back.
  if (renamed !== undefined && renamed !== holder) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

async function throwFailure(path: string, begin: number): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || found.mtimeMs < begin) return;
  throw new CheckpointError(
    {
      asked: 'to wait for another process of this machine, which did this work',
      found: (await contents(path)) ?? 'a failure',
      todo: 'See to the cause, and try again',
    },
    { path },
  );
}

async function contents(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}

function isAlive(pid: number): boolean {
  // A holder whose name is not written yet lives.
  if (!Number.isInteger(pid) || pid <= 0) return true;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM means that the process exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
