import { checkOptions, DataError, option, type OptionRules } from '@shardwise/core/extend';
import type { ByteSource } from './byte-source.ts';

/** Options of `httpBytes`. */
export interface HttpBytesOptions {
  /** Headers of each request, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How often a request is sent again after a failure of the network or the server. Default: 3. */
  readonly retries?: number;
}

const httpRules: OptionRules<HttpBytesOptions> = {
  headers: option.object('headers by name'),
  retries: option.count,
};

/** How long a request waits before it is sent again; each further wait is twice as long. */
const FIRST_WAIT_MS = 100;

/**
 * The bytes of what a server has at a URL, read in ranges. Every store whose URLs can be signed is read in this way, too.
 * Throws DataError if the server does not answer with ranges, has nothing there, or has something else than before.
 */
export async function httpBytes(
  url: string | URL,
  options: HttpBytesOptions = {},
): Promise<ByteSource> {
  checkOptions('httpBytes', options, httpRules);
  const name = String(url);
  const request = (start: number, end: number): Promise<Range> =>
    readRange(name, start, end, options);
  const { size, version } = await request(0, 1);
  return {
    name,
    size,
    read: async (start, end) => {
      if (end <= start) return new Uint8Array(0);
      const range = await request(start, end);
      if (range.size !== size || range.version !== version) {
        throw failed(
          name,
          `${range.size} bytes (${range.version}) instead of ${size} (${version})`,
        );
      }
      return range.bytes;
    },
  };
}

interface Range {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly size: number;
  /** What changes when the content does. */
  readonly version: string;
}

async function readRange(
  url: string,
  start: number,
  end: number,
  { headers = {}, retries = 3 }: HttpBytesOptions,
): Promise<Range> {
  for (let attempt = 0; ; attempt++) {
    try {
      const range = { range: `bytes=${start}-${end - 1}`, 'accept-encoding': 'identity' };
      const response = await fetch(url, { headers: { ...headers, ...range } });
      if (response.status < 500 && response.status !== 429) {
        return await rangeOf(url, response, start, end);
      }
      await response.body?.cancel();
      throw new TypeError(`status ${response.status}`);
    } catch (error) {
      if (error instanceof DataError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      if (attempt >= retries) throw failed(url, `${reason}, ${attempt + 1} times`, error);
      await new Promise((resolve) => setTimeout(resolve, FIRST_WAIT_MS * 2 ** attempt));
    }
  }
}

async function rangeOf(
  url: string,
  response: Response,
  start: number,
  end: number,
): Promise<Range> {
  const { status, headers } = response;
  const [, first, last, total] =
    /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers.get('content-range') ?? '') ?? [];
  const size = Number(total);
  const isAsked = Number(first) === start && Number(last) === Math.min(end, size) - 1;
  if (status !== 206 || !isAsked) {
    await response.body?.cancel();
    const range = headers.get('content-range') ?? 'no range';
    throw failed(url, `status ${status} with ${range} for the bytes from ${start} to ${end - 1}`);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  const version = headers.get('etag') ?? headers.get('last-modified') ?? '';
  if (bytes.length === Number(last) - start + 1) return { bytes, size, version };
  // The connection ended early: what is asked for again.
  throw new TypeError(`${bytes.length} bytes instead of ${Number(last) - start + 1}`);
}

function failed(url: string, found: string, cause?: unknown): DataError {
  return new DataError(
    {
      asked: `to read ${url}`,
      found,
      todo: 'Check the URL and its headers; the server must answer with ranges, and keep the content while it is in use',
    },
    { url },
    { cause },
  );
}
