import type { datasetInfo, downloadFile, listFiles, modelInfo } from '@huggingface/hub';
import { CheckpointError, ConfigError } from '../spec/errors.ts';
import { requireSettled, withRetries } from './http-request.ts';
import type { HubRepository } from './hub-options.ts';

/** A file of a repository, as the hub lists it. */
export interface HubFile {
  readonly path: string;
  readonly byteLength: number;
  /** The SHA-256 of a large file, or what git makes of a small one. It is the name of the file in the cache. */
  readonly hash: string;
}

interface HubLibrary {
  readonly datasetInfo: typeof datasetInfo;
  readonly downloadFile: typeof downloadFile;
  readonly listFiles: typeof listFiles;
  readonly modelInfo: typeof modelInfo;
}

/** More files than a repository has. */
const MAX_FILES = 1_000_000;

/** Asks the hub, by its own library. The token goes to the hub only. */
export class HubClient {
  readonly repository: HubRepository;

  constructor(repository: HubRepository) {
    this.repository = repository;
  }

  /** The commit of the revision. Throws CheckpointError, with the field `unreachable` if nothing has answered. */
  async commit(): Promise<string> {
    const { name, revision, type } = this.repository;
    const library = await loadLibrary();
    const asked = { name, revision, additionalFields: ['sha'], ...this.#common() } satisfies object;
    const { sha }: { readonly sha?: unknown } = await this.#told(() =>
      type === 'model'
        ? library.modelInfo({ ...asked, additionalFields: ['sha'] })
        : library.datasetInfo({ ...asked, additionalFields: ['sha'] }),
    );
    if (typeof sha === 'string' && /^[0-9a-f]{40}$/.test(sha)) return sha;
    throw this.#unusable('an answer without a commit');
  }

  /** The files of a commit. Throws CheckpointError for names that lead out of a folder. */
  async files(commit: string): Promise<ReadonlyMap<string, HubFile>> {
    const { listFiles } = await loadLibrary();
    const files = new Map<string, HubFile>();
    await this.#told(async () => {
      const asked = { repo: this.#repo(), recursive: true, revision: commit, ...this.#common() };
      for await (const { type, path, size, oid, lfs } of listFiles(asked)) {
        if (type !== 'file') continue;
        const hash = lfs?.oid ?? oid;
        const isHash = typeof hash === 'string' && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash);
        if (!isHash || !Number.isSafeInteger(size) || size < 0 || typeof path !== 'string') {
          throw this.#unusable('a list with a malformed entry');
        }
        if (!isSafePath(path)) throw this.#unusable(`a file with the name ${JSON.stringify(path)}`);
        files.set(path, { path, byteLength: size, hash });
        if (files.size > MAX_FILES) throw this.#unusable(`more than ${MAX_FILES} files`);
      }
    });
    return files;
  }

  /** The bytes of a file from `start` on. */
  async read(
    { path, byteLength }: HubFile,
    commit: string,
    start: number,
  ): Promise<ReadableStream<Uint8Array>> {
    const { downloadFile } = await loadLibrary();
    return this.#told(async () => {
      const asked = { repo: this.#repo(), path, revision: commit, ...this.#common() };
      const blob = await downloadFile(asked);
      if (blob === null) throw this.#unusable(`no ${path}, although it is in the list`);
      if (blob.size !== byteLength) {
        throw this.#unusable(`${path} with ${blob.size} bytes instead of ${byteLength}`);
      }
      return (start === 0 ? blob : blob.slice(start, byteLength)).stream();
    });
  }

  #repo(): { readonly type: 'model' | 'dataset'; readonly name: string } {
    const { type, name } = this.repository;
    return { type, name };
  }

  #common(): { readonly hubUrl: string; readonly fetch: typeof fetch } {
    const { endpoint, token, retries, name } = this.repository;
    const { origin } = new URL(endpoint);
    const send: typeof fetch = (input, init) =>
      withRetries(`to read ${name} of ${endpoint}`, retries, async () => {
        const url = new URL(input instanceof Request ? input.url : input);
        const headers = new Headers(init?.headers);
        // Fetch removes it where a redirect leads to another host.
        if (token !== undefined && url.origin === origin) {
          headers.set('authorization', `Bearer ${token}`);
        }
        const response = await fetch(url, { ...init, headers });
        await requireSettled(response);
        return response;
      });
    return { hubUrl: endpoint, fetch: send };
  }

  async #told<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (cause) {
      if (CheckpointError.isInstance(cause)) throw cause;
      const status =
        cause instanceof Error && 'statusCode' in cause ? Number(cause.statusCode) : undefined;
      const { name, revision } = this.repository;
      const isClosed = status === 401 || status === 403;
      throw new CheckpointError(
        {
          asked: `to read ${name} of the hub, at ${revision}`,
          found: status === undefined ? messageOf(cause) : `status ${status}`,
          todo: isClosed
            ? 'Check the name. For a private or gated model, ask for access, and set HF_TOKEN'
            : 'Check the name and the revision; a folder of this path is not here either, if a path was meant',
        },
        { name, revision, status },
        { cause },
      );
    }
  }

  #unusable(found: string): CheckpointError {
    const { name, endpoint } = this.repository;
    return new CheckpointError(
      { asked: `to read ${name} of ${endpoint}`, found, todo: 'Use another repository' },
      { name },
    );
  }
}

/** Whether a path stays in its folder, on every system. */
export function isSafePath(path: string): boolean {
  const parts = path.split('/');
  return (
    path.length <= 1024 &&
    !/[\\\0:]/.test(path) &&
    parts.every((part) => part !== '' && part !== '.' && part !== '..')
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function loadLibrary(): Promise<HubLibrary> {
  try {
    return await import('@huggingface/hub');
  } catch (cause) {
    throw new ConfigError(
      {
        asked: 'a repository of the hub',
        found: 'the package @huggingface/hub, which reads it, is not installed',
        todo: 'npm install @huggingface/hub',
      },
      {},
      { cause },
    );
  }
}
