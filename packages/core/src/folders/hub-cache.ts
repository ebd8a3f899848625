import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  copyFile,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { CheckpointError } from '../spec/errors.ts';
import { withFileLock } from './file-lock.ts';
import type { HubClient, HubFile } from './hub-client.ts';
import { TransientFailure, withRetries } from './http-request.ts';
import type { HubRepository } from './hub-options.ts';

/** The folder of a commit in the cache. */
export function snapshotFolder({ folder }: HubRepository, commit: string): string {
  return join(folder, 'snapshots', commit);
}

/** The commit that the cache knows of the revision. Undefined if it knows none. */
export async function cachedCommit({
  folder,
  revision,
}: HubRepository): Promise<string | undefined> {
  if (isCommit(revision)) return revision;
  const text = await readFile(join(folder, 'refs', revision), 'utf8').catch(() => undefined);
  return text !== undefined && isCommit(text.trim()) ? text.trim() : undefined;
}

/** Whether a revision is a commit, whose files never change. */
export function isCommit(revision: string): boolean {
  return /^[0-9a-f]{40}$/.test(revision);
}

/** Notes the commit of the revision in the cache. */
export async function writeRef({ folder, revision }: HubRepository, commit: string): Promise<void> {
  if (isCommit(revision)) return;
  const path = join(folder, 'refs', revision);
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${crypto.randomUUID()}.tmp`;
  await writeFile(temporary, commit);
  await rename(temporary, path);
}

/**
 * Brings a file of a commit into the cache. One process of the machine reads it, and the others wait. What an interrupted
 * one has read is kept, and only the rest is asked for. Throws CheckpointError for a file with another hash, of which
 * nothing stays.
 */
export async function download(client: HubClient, file: HubFile, commit: string): Promise<void> {
  const { repository } = client;
  const blob = join(repository.folder, 'blobs', file.hash);
  await mkdir(dirname(blob), { recursive: true });
  await withFileLock(join(repository.locks, `${file.hash}.shardwise.lock`), async () => {
    if (await exists(blob)) return;
    const partial = `${blob}.shardwise.incomplete`;
    await readRest(client, file, commit, partial);
    const found = await hashOf(partial, file);
    if (found !== file.hash) {
      await rm(partial, { force: true });
      throw wrongHash(repository, file, found);
    }
    await rename(partial, blob);
  });
  const pointer = join(snapshotFolder(repository, commit), file.path);
  await mkdir(dirname(pointer), { recursive: true });
  try {
    await symlink(relative(dirname(pointer), blob), pointer);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    // Not every system lets every user make links.
    if (code === 'EPERM' || code === 'ENOTSUP') await copyFile(blob, pointer);
    else if (code !== 'EEXIST') throw error;
  }
}

async function readRest(
  client: HubClient,
  file: HubFile,
  commit: string,
  partial: string,
): Promise<void> {
  await using handle = await open(partial, 'a');
  let { size } = await handle.stat();
  if (size > file.byteLength) {
    await handle.truncate(0);
    size = 0;
  }
  const asked = `to read ${file.path} of ${client.repository.name}`;
  while (size < file.byteLength) {
    // A connection that brings something may be followed by as many failures as the first one.
    size += await withRetries(asked, client.repository.retries, async () => {
      let read = 0;
      try {
        for await (const chunk of await client.read(file, commit, size)) {
          if (size + read + chunk.byteLength > file.byteLength)
            throw new TypeError('too many bytes');
          await handle.writeFile(chunk);
          read += chunk.byteLength;
        }
      } catch (error) {
        if (CheckpointError.isInstance(error) || (error instanceof Error && 'errno' in error))
          throw error;
        // The library ends a stream with a text as its error.
        if (read === 0)
          throw new TransientFailure(error instanceof Error ? error.message : String(error));
      }
      if (read === 0) throw new TransientFailure('no bytes');
      return read;
    });
  }
  await handle.sync();
}

/** The hash of a file, by the way by which its name was made: SHA-256, or that of a blob of git. */
async function hashOf(path: string, { hash, byteLength }: HubFile): Promise<string> {
  const isGit = hash.length === 40;
  const hasher = createHash(isGit ? 'sha1' : 'sha256');
  if (isGit) hasher.update(`blob ${byteLength}\0`);
  for await (const chunk of createReadStream(path)) hasher.update(chunk);
  return hasher.digest('hex');
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

function wrongHash({ name }: HubRepository, file: HubFile, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `to read ${file.path} of ${name}`,
      found: `the hash ${found} instead of ${file.hash}`,
      todo: 'Try again; if it stays, what lies between here and the hub changes files',
    },
    { name, path: file.path, expected: file.hash, found },
  );
}
