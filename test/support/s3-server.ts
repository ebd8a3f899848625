import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver, { type Context, type Middleware } from '@20minutes/s3rver';

/** A request that the server has answered. */
interface AnsweredRequest {
  readonly method: string;
  /** The key of an object, without its bucket. */
  readonly key: string;
  readonly query: Readonly<Record<string, string>>;
  readonly status: number;
  /** The bytes of the answer. */
  readonly bytes: number;
}

/** An S3-compatible store of this machine with one bucket, which checks signatures. */
export interface S3Server extends AsyncDisposable {
  readonly endpoint: string;
  readonly bucket: string;
  /** The variables of the environment with which its clients find it. */
  readonly environment: Readonly<Record<string, string>>;
  readonly requests: readonly AnsweredRequest[];
  /** What is done before each answer. It may answer itself: with what it returns, which is a status, or by ending the connection. */
  fault: (context: Context) => number | undefined;
  /** The most names of an answer to a request for a list. */
  listedAtOnce: number;
}

const BUCKET = 'training';
/** The only account of the package. */
const KEY = 'S3RVER';

/** Starts a server with an empty bucket. */
export async function startS3(): Promise<S3Server> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-s3-'));
  const store = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    vhostBuckets: false,
    configureBuckets: [{ name: BUCKET }],
  });
  const requests: AnsweredRequest[] = [];
  store.middleware.unshift(async (context, next) => {
    const status = server.fault(context);
    try {
      if (status !== undefined) context.status = status;
      else if ('list-type' in context.query && server.listedAtOnce < 1000) {
        await listPage(store, context, server.listedAtOnce);
      } else if (!context.res.destroyed) await conditional(store, context, next);
    } finally {
      const { method, path, query } = context;
      const bytes = method === 'GET' ? (context.response.length ?? 0) : 0;
      requests.push({ method, key: keyOf(path), query, status: context.status, bytes });
    }
  });
  const { port } = await store.run();
  const endpoint = `http://127.0.0.1:${port}`;
  const server: S3Server = {
    endpoint,
    bucket: BUCKET,
    environment: {
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_ACCESS_KEY_ID: KEY,
      AWS_SECRET_ACCESS_KEY: KEY,
      AWS_REGION: 'us-east-1',
    },
    requests,
    fault: () => undefined,
    listedAtOnce: 1000,
    async [Symbol.asyncDispose]() {
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
  return server;
}

/** The conditions that Amazon's server knows, and the package does not: `If-None-Match: *` of a PUT, and `If-Match` of a GET. */
async function conditional(
  { store }: S3rver,
  context: Context,
  next: Parameters<Middleware>[1],
): Promise<void> {
  const key = keyOf(context.path);
  // The package answers unsigned requests, which a bucket does not that is closed.
  if (context.get('authorization') === '') {
    context.status = 403;
    return;
  }
  const there = key !== '' && (await store.existsObject(BUCKET, key));
  if (there && context.method === 'PUT' && context.get('if-none-match') === '*') {
    context.status = 412;
    return;
  }
  const condition = context.get('if-match');
  if (there && context.method === 'GET' && condition !== '') {
    const { metadata, content } = await store.getObject(BUCKET, key);
    content.destroy();
    if (metadata['etag'] !== condition) {
      context.status = 412;
      return;
    }
  }
  await next();
}

/** A page of a list. The package makes its tokens by a cipher that Node no longer has. */
async function listPage({ store }: S3rver, context: Context, maxKeys: number): Promise<void> {
  const { prefix = '', 'continuation-token': startAfter } = context.query;
  const after = startAfter === undefined ? {} : { startAfter };
  const { objects, isTruncated } = await store.listObjects(BUCKET, { maxKeys, prefix, ...after });
  const entries = objects.map(
    ({ key, size, lastModifiedDate }) =>
      `<Contents><Key>${encodeURIComponent(key)}</Key><LastModified>${lastModifiedDate.toISOString()}</LastModified><Size>${size}</Size></Contents>`,
  );
  const next = `<NextContinuationToken>${objects.at(-1)?.key}</NextContinuationToken>`;
  context.status = 200;
  context.body = `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>${isTruncated}</IsTruncated>${isTruncated ? next : ''}${entries.join('')}</ListBucketResult>`;
}

function keyOf(path: string): string {
  return decodeURIComponent(path.slice(`/${BUCKET}/`.length));
}
