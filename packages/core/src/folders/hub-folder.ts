import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '../spec/errors.ts';
import { diskFolder } from '../serialization/disk-folder.ts';
import type { ModelFolder } from '../serialization/model-folder.ts';
import { cachedCommit, download, isCommit, snapshotFolder, writeRef } from './hub-cache.ts';
import { HubClient, type HubFile, isSafePath } from './hub-client.ts';
import { type HubOptions, hubRepository } from './hub-options.ts';

/** A commit of a repository, and its files. Undefined if only the cache can be read. */
interface Snapshot {
  readonly commit: string;
  readonly files: (() => Promise<ReadonlyMap<string, HubFile>>) | undefined;
}

/**
 * A repository of the Hugging Face hub, such as `organization/model` or `datasets/organization/name`. Files are read into
 * the cache that Python shares when they are asked for, one process of a machine at a time, and are checked by their
 * hashes. What is in the cache is read from there: without a network, the commit that was read last. It needs the package
 * `@huggingface/hub`, unless all is in the cache and the hub is not asked. Node only. Throws ConfigError for another name;
 * its files throw CheckpointError, which says what the cache lacks. Source: huggingface_hub, “Manage your cache”.
 */
export function hubFolder(repository: string, options: HubOptions = {}): ModelFolder {
  const repo = hubRepository(repository, options);
  const client = new HubClient(repo);
  let opened: Promise<Snapshot> | undefined;
  const snapshot = (): Promise<Snapshot> => {
    opened ??= openSnapshot(client);
    // A hub that could not be reached is asked again.
    opened.catch(() => (opened = undefined));
    return opened;
  };
  /** Brings a file into the cache. Returns its folder, or undefined if there is no such file. */
  const fetched = async (name: string): Promise<ModelFolder | undefined> => {
    if (!isSafePath(name)) return undefined;
    const { commit, files } = await snapshot();
    const folder = snapshotFolder(repo, commit);
    if ((await stat(join(folder, name)).catch(() => undefined)) === undefined) {
      const file = (await files?.())?.get(name);
      if (file === undefined) return undefined;
      await download(client, file, commit);
      await writeRef(repo, commit);
    }
    return diskFolder(folder);
  };
  return {
    place: repo.isOffline ? `${repository} (offline: only what ${repo.folder} has)` : repository,
    version: async () => (await snapshot()).commit,
    readText: async (name) => (await fetched(name))?.readText(name),
    open: async (name) => (await fetched(name))?.open(name),
  };
}

async function openSnapshot(client: HubClient): Promise<Snapshot> {
  const { repository } = client;
  const cached = await cachedCommit(repository);
  const known = async (): Promise<string | undefined> =>
    cached !== undefined &&
    (await stat(snapshotFolder(repository, cached)).catch(() => undefined)) !== undefined
      ? cached
      : undefined;
  const listed = (commit: string): Snapshot => {
    let files: Promise<ReadonlyMap<string, HubFile>> | undefined;
    return { commit, files: () => (files ??= client.files(commit)) };
  };
  if (repository.isOffline) {
    const commit = await known();
    if (commit === undefined) throw notCached(client, 'HF_HUB_OFFLINE is set');
    return { commit, files: undefined };
  }
  if (isCommit(repository.revision)) return listed(repository.revision);
  try {
    return listed(await client.commit());
  } catch (error) {
    const isUnreachable = error instanceof CheckpointError && 'times' in error.fields;
    if (!isUnreachable) throw error;
    const commit = await known();
    if (commit === undefined) throw notCached(client, 'the hub does not answer', error);
    const { name, endpoint } = repository;
    console.warn(
      `shardwise: ${endpoint} does not answer. ${name} is read from the cache, at ${commit}.`,
    );
    return { commit, files: undefined };
  }
}

function notCached({ repository }: HubClient, why: string, cause?: unknown): CheckpointError {
  const { name, revision, folder } = repository;
  return new CheckpointError(
    {
      asked: `to read ${name} of the hub, at ${revision}`,
      found: `${why}, and the cache has nothing of it in ${folder}`,
      todo: `Check the name. With a network, read it once; or copy the folder from another cache`,
    },
    { name, revision, folder },
    { cause },
  );
}
