import { createHash } from 'node:crypto';
import type { AwsClient as Signer } from 'aws4fetch';
import { CheckpointError, ConfigError } from '../spec/errors.ts';
import { encodePath } from './http-folder.ts';
import { readLimited, requireSettled, type SendRequest, withRetries } from './http-request.ts';
import type { S3Bucket, S3Credentials } from './s3-options.ts';

/** More bytes than an answer in XML has. A list has at most 1000 keys of 1024 bytes, which may be escaped. */
const MAX_XML_BYTES = 16 * 1024 * 1024;

/** A request to a bucket. */
export interface S3Request {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** The key of an object. Empty for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array<ArrayBuffer>;
}

/** What an answer says that is no success. */
interface S3Failure {
  readonly status: number;
  /** The code of S3, such as `NoSuchKey`. */
  readonly code: string;
}

/** Sends signed requests to a bucket. aws4fetch, which signs them, is loaded when the first one is sent. */
export class S3Client {
  readonly bucket: S3Bucket;
  readonly #cache = new Map<string, ArrayBuffer>();

  constructor(bucket: S3Bucket) {
    this.bucket = bucket;
  }

  /** What errors call an object. */
  nameOf(key: string): string {
    return `s3://${this.bucket.bucket}${key === '' ? '' : `/${key}`}`;
  }

  urlOf(key: string, query: Readonly<Record<string, string>> = {}): URL {
    // The path of the bucket itself has no slash at its end, unless it is the root of a host.
    const url = new URL(
      key === '' ? this.bucket.base.replace(/\/$/, '') : this.bucket.base + encodePath(key),
    );
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return url;
  }

  /**
   * Sends a request, again and again if it fails for a while, and returns the answer if its status is a success or one of
   * `accepted`. Throws CheckpointError for another one.
   */
  async request(
    { method, key, query, headers, body }: S3Request,
    accepted: readonly number[] = [],
  ): Promise<Response> {
    const asked = `to ${method === 'GET' || method === 'HEAD' ? 'read' : 'write'} ${this.nameOf(key)}`;
    return withRetries(asked, this.bucket.retries, async () => {
      const init = { method, headers: { ...headers }, body: body ?? null };
      const response = await this.send(this.urlOf(key, query), init);
      // Another request for the same key was under way.
      if (response.status === 409) await requireSettled(new Response(null, { status: 503 }));
      await requireSettled(response);
      if (response.ok || accepted.includes(response.status)) return response;
      throw failed(asked, await failureOf(response), response.headers.get('x-amz-bucket-region'));
    });
  }

  /** The text of an answer in XML. */
  async xml(request: S3Request): Promise<string> {
    const response = await this.request(request);
    const name = this.nameOf(request.key);
    return new TextDecoder().decode(await readLimited(name, response, MAX_XML_BYTES));
  }

  /** Signs a request, and sends it once. No redirect is followed, because its signature is for this host. */
  readonly send: SendRequest = async (url, init) => {
    const { credentials, region } = this.bucket;
    const plain = { ...init, redirect: 'manual' } as const;
    if (credentials === null) return fetch(url, plain);
    const [{ AwsClient }, { accessKeyId, secretAccessKey, sessionToken }] = await Promise.all([
      loadSigner(),
      checkedCredentials(credentials),
    ]);
    const headers = new Headers(init.headers);
    const body = init.body instanceof Uint8Array ? init.body : new Uint8Array();
    headers.set('x-amz-content-sha256', createHash('sha256').update(body).digest('hex'));
    const token = sessionToken === undefined ? {} : { sessionToken };
    const service = { service: 's3', region, cache: this.#cache };
    const client = new AwsClient({ accessKeyId, secretAccessKey, ...token, ...service });
    return fetch(await client.sign(url, { ...plain, headers }));
  };
}

/** Returns the contents of the first element of a name, or undefined. */
export function elementOf(xml: string, name: string): string | undefined {
  const found = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  return found === undefined ? undefined : unescapeXml(found);
}

function unescapeXml(text: string): string {
  const names: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|(\w+));/gi, (whole, hex, decimal, name) => {
    const code = hex === undefined ? Number(decimal) : Number.parseInt(String(hex), 16);
    if (name !== undefined) return names[String(name)] ?? whole;
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole;
  });
}

/** The code of an answer. Its message is left out, because it may repeat what was signed. */
async function failureOf(response: Response): Promise<S3Failure> {
  const text = new TextDecoder().decode(await readLimited('an answer', response, MAX_XML_BYTES));
  const code = elementOf(text, 'Code') ?? '';
  return { status: response.status, code: /^\w{1,64}$/.test(code) ? code : '' };
}

/** The error for a request that the store refuses. */
export function failed(
  asked: string,
  { status, code }: S3Failure,
  region: string | null = null,
): CheckpointError {
  const isElsewhere = region !== null && (status === 301 || status === 307 || status === 400);
  return new CheckpointError(
    {
      asked,
      found: `status ${status}${code === '' ? '' : ` (${code})`}`,
      todo: isElsewhere
        ? `Give the region of the bucket: ${region}`
        : 'Check the bucket, the region, and what the credentials permit',
    },
    { status, code },
  );
}

async function checkedCredentials(give: () => Promise<S3Credentials>): Promise<S3Credentials> {
  const found = await give();
  const isWhole =
    typeof found.accessKeyId === 'string' && typeof found.secretAccessKey === 'string';
  if (isWhole) return found;
  throw new ConfigError({
    asked: 'the credentials of a bucket',
    found: 'none with accessKeyId and secretAccessKey',
    todo: 'Let the function return both',
  });
}

async function loadSigner(): Promise<{ readonly AwsClient: typeof Signer }> {
  try {
    return await import('aws4fetch');
  } catch (cause) {
    throw new ConfigError(
      {
        asked: 'a place in an S3-compatible store',
        found: 'the package aws4fetch, which signs requests, is not installed',
        todo: 'npm install aws4fetch',
      },
      {},
      { cause },
    );
  }
}
