import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** A file of the hub. Large ones have the hash of LFS, and small ones that of git. */
interface ServedFile {
  readonly bytes: Buffer;
  readonly isLarge: boolean;
}

/** A server that speaks what a client of the Hugging Face hub asks: the commit, the list of files, and their bytes. */
export interface HubServer extends AsyncDisposable {
  readonly endpoint: string;
  readonly name: string;
  commit: string;
  readonly files: Map<string, ServedFile>;
  /** The requests so far: method, path and range. */
  readonly requests: string[];
  /** The values of `authorization` that were sent. */
  readonly tokens: (string | undefined)[];
  /** Answers instead of the server if it returns true. */
  fault: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** The hash by which a file is named in the cache. */
export function hubHash({ bytes, isLarge }: ServedFile): string {
  if (isLarge) return createHash('sha256').update(bytes).digest('hex');
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}

/** Starts a server with a repository, and its files. */
export async function startHub(name: string, files: Map<string, ServedFile>): Promise<HubServer> {
  const http = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?');
    hub.requests.push(`${request.method} ${path} ${request.headers.range ?? ''}`.trim());
    hub.tokens.push(request.headers.authorization);
    if (hub.fault(request, response)) return;
    const json = (value: unknown): void => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    };
    const api = `/api/models/${name}`;
    const resolve = `/${name}/resolve/`;
    if (path.startsWith(`${api}/revision/`)) {
      json({ _id: '1', id: name, sha: hub.commit, lastModified: '2026-01-01T00:00:00.000Z' });
    } else if (path === `${api}/tree/${hub.commit}`) {
      json([...files].map(([file, served]) => entryOf(file, served)));
    } else if (path.startsWith(resolve)) {
      const file = files.get(
        decodeURIComponent(path.slice(resolve.length).replace(/^[^/]+\//, '')),
      );
      if (file === undefined) response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end();
      else sendFile(file, hub.commit, request, response);
    } else {
      response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end();
    }
  });
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done));
  const address = http.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const hub: HubServer = {
    endpoint: `http://127.0.0.1:${address.port}`,
    name,
    commit: 'a'.repeat(40),
    files,
    requests: [],
    tokens: [],
    fault: () => false,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections();
      await new Promise((done) => http.close(done));
    },
  };
  return hub;
}

function entryOf(path: string, file: ServedFile): object {
  const [hash, size] = [hubHash(file), file.bytes.length];
  const common = { type: 'file', path, size };
  if (!file.isLarge) return { ...common, oid: hash };
  return { ...common, oid: 'b'.repeat(40), lfs: { oid: hash, size, pointerSize: 130 } };
}

function sendFile(
  file: ServedFile,
  commit: string,
  { headers }: IncomingMessage,
  response: ServerResponse,
): void {
  const { length } = file.bytes;
  const [, start = '0', end = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  const last = Math.min(end === '' ? length : Number(end), length - 1);
  const range = { 'content-range': `bytes ${start}-${last}/${length}` };
  const hasRange = headers.range !== undefined;
  response.writeHead(hasRange ? 206 : 200, {
    etag: `"${hubHash(file)}"`,
    'x-repo-commit': commit,
    'content-length': last + 1 - Number(start),
    ...(hasRange ? range : {}),
  });
  response.end(file.bytes.subarray(Number(start), last + 1));
}
