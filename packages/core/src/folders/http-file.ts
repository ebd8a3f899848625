import type { CheckpointError } from '../spec/errors.ts';
import type { RandomAccessFile } from '../serialization/model-folder.ts';
import { readBlocks } from './read-blocks.ts';
import {
  nameOfUrl,
  refused,
  requireSettled,
  type SendRequest,
  TransientFailure,
  withRetries,
} from './http-request.ts';

/** A request takes as long as some hundred kilobytes. */
const GAP_BYTES = 524_288;

/** Where a file is, and how it is asked for. */
export interface HttpPlace {
  readonly url: URL;
  readonly send: SendRequest;
  readonly retries: number;
}

/** What a server says of a file. */
export interface HttpVersion {
  readonly byteLength: number;
  /** What changes when the content does: the ETag, or the time of the last change. */
  readonly version: string;
}

/**
 * Opens a file of a server, which is read in ranges. Returns undefined if there is none. Throws CheckpointError if the
 * server does not answer with ranges, or does not say when the content changes.
 */
export async function openHttpFile(place: HttpPlace): Promise<RandomAccessFile | undefined> {
  const name = nameOfUrl(place.url);
  const found = await withRetries(`to read ${name}`, place.retries, async () => {
    // A signed URL allows no HEAD.
    const response = await requestRange(place, 0, 1);
    await response.body?.cancel();
    if (response.status === 404 || response.status === 410) return undefined;
    const { status, headers } = response;
    // No range of an empty file can be answered.
    if (status === 416 && /^bytes \*\/0$/.test(headers.get('content-range') ?? '')) {
      return { byteLength: 0, version: '' };
    }
    return checkRange(name, response, 0, 1);
  });
  if (found !== undefined && found.byteLength > 0 && found.version === '') {
    throw refused(
      name,
      'neither ETag nor Last-Modified, so that nothing tells if it changes while it is read',
      'Copy the file to a folder, or let the server say one of them',
    );
  }
  return found === undefined ? undefined : rangedFile(place, found);
}

/** A file of which size and version are known. */
export function rangedFile(place: HttpPlace, known: HttpVersion): RandomAccessFile {
  const { byteLength } = known;
  return readBlocks({
    byteLength,
    version: known.version,
    gapBytes: GAP_BYTES,
    async read(target, byteOffset) {
      const end = Math.min(byteLength, byteOffset + target.byteLength);
      let filled = 0;
      while (byteOffset + filled < end) {
        // What has come before a failure is kept, and each piece may fail as often as a whole read.
        filled += await withRetries(`to read ${nameOfUrl(place.url)}`, place.retries, () =>
          readSome(place, known, target.subarray(filled, end - byteOffset), byteOffset + filled),
        );
      }
      return filled;
    },
    close: async () => {},
  });
}

/** Reads bytes until the connection ends. Returns their number, which is not 0. */
async function readSome(
  place: HttpPlace,
  known: HttpVersion,
  target: Uint8Array,
  start: number,
): Promise<number> {
  const name = nameOfUrl(place.url);
  const end = start + target.byteLength;
  const response = await requestRange(place, start, end, known.version);
  if (response.status === 412) throw changed(name, known, 'another version');
  const { byteLength, version } = await checkRange(name, response, start, end);
  if (byteLength !== known.byteLength || version !== known.version) {
    await response.body?.cancel();
    throw changed(name, known, `${byteLength} bytes (${version})`);
  }
  let filled = 0;
  try {
    for await (const chunk of response.body ?? []) {
      if (filled + chunk.byteLength > target.byteLength) {
        throw refused(
          name,
          `more bytes than the range has`,
          'Use a server that answers with ranges',
        );
      }
      target.set(chunk, filled);
      filled += chunk.byteLength;
    }
  } catch (error) {
    if (!(error instanceof TypeError) || filled === 0) throw error;
  }
  if (filled === 0) throw new TransientFailure(`0 bytes instead of ${target.byteLength}`);
  return filled;
}

async function requestRange(
  { url, send }: HttpPlace,
  start: number,
  end: number,
  version = '',
): Promise<Response> {
  // A request for a range is for bytes that are not compressed: fetch says so itself.
  const response = await send(url, {
    headers: {
      range: `bytes=${start}-${end - 1}`,
      // Only an ETag that is strong can be a condition.
      ...(version.startsWith('"') ? { 'if-match': version } : {}),
    },
  });
  await requireSettled(response);
  return response;
}

/** Checks that an answer has the range that was asked for. */
async function checkRange(
  name: string,
  response: Response,
  start: number,
  end: number,
): Promise<HttpVersion> {
  const { status, headers } = response;
  const range = headers.get('content-range');
  const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(range ?? '') ?? [];
  const byteLength = Number(total);
  const isAsked = Number(first) === start && Number(last) === Math.min(end, byteLength) - 1;
  if (status === 206 && isAsked && Number.isSafeInteger(byteLength)) {
    return { byteLength, version: headers.get('etag') ?? headers.get('last-modified') ?? '' };
  }
  await response.body?.cancel();
  const isForbidden = status === 401 || status === 403;
  throw refused(
    name,
    `status ${status} with ${range ?? 'no range'} for the bytes from ${start} to ${end - 1}`,
    isForbidden
      ? 'Give the headers or the credentials that the server asks for'
      : 'Check the URL and its headers; the server must answer with ranges',
  );
}

function changed(name: string, known: HttpVersion, found: string): CheckpointError {
  return refused(
    name,
    `${found} instead of ${known.byteLength} bytes (${known.version})`,
    'Open the file again, and keep its content while it is in use',
  );
}
