import { createHash } from 'node:crypto';
import { CheckpointError } from '../spec/errors.ts';
import { elementOf, failed, type S3Client } from './s3-client.ts';

const MAX_PARTS = 10_000;
/** The number of parts that are sent at once. */
const CONCURRENT_PARTS = 4;

/**
 * Writes an object. More bytes than a part has are sent in parts, and the object appears when all are there. What an
 * interrupted write has sent is removed. Throws CheckpointError.
 */
export async function upload(
  client: S3Client,
  key: string,
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const parts = partsOf(chunks, client.bucket.partBytes)[Symbol.asyncIterator]();
  const first = await parts.next();
  const second = first.done === true ? first : await parts.next();
  const body = first.done === true ? new Uint8Array() : first.value;
  if (second.done === true) {
    await client.request({ method: 'PUT', key, body });
    return;
  }
  const started = await client.xml({ method: 'POST', key, query: { uploads: '' } });
  const uploadId = elementOf(started, 'UploadId');
  if (uploadId === undefined) throw unexpected(client, key, 'no UploadId');
  try {
    const tags = await sendParts(client, key, uploadId, [body, second.value], parts);
    await complete(client, key, uploadId, tags);
  } catch (error) {
    // The error that comes first is the one to tell.
    const abort = { method: 'DELETE', key, query: { uploadId } } as const;
    await client.request(abort, [404]).catch(() => undefined);
    throw error;
  }
}

async function sendParts(
  client: S3Client,
  key: string,
  uploadId: string,
  before: readonly Uint8Array<ArrayBuffer>[],
  rest: AsyncIterator<Uint8Array<ArrayBuffer>>,
): Promise<readonly string[]> {
  const tags: string[] = [];
  let count = 0;
  const underWay = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const send = async (number: number, body: Uint8Array<ArrayBuffer>): Promise<void> => {
    const query = { partNumber: String(number), uploadId };
    const response = await client.request({ method: 'PUT', key, query, body });
    await response.body?.cancel();
    const tag = response.headers.get('etag');
    if (tag === null || /[<&]/.test(tag)) throw unexpected(client, key, 'a part without ETag');
    tags[number - 1] = tag;
  };
  const begin = async (body: Uint8Array<ArrayBuffer>): Promise<void> => {
    count += 1;
    if (count > MAX_PARTS) throw tooLarge(client, key);
    const sending = send(count, body)
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => underWay.delete(sending));
    underWay.add(sending);
    if (underWay.size >= CONCURRENT_PARTS) await Promise.race(underWay);
    if (failure !== undefined) throw failure.error;
  };
  try {
    for (const body of before) await begin(body);
    for (let part = await rest.next(); part.done !== true; part = await rest.next()) {
      await begin(part.value);
    }
  } finally {
    await Promise.all(underWay);
  }
  if (failure !== undefined) throw failure.error;
  return tags;
}

async function complete(
  client: S3Client,
  key: string,
  uploadId: string,
  tags: readonly string[],
): Promise<void> {
  const list = tags.map(
    (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`,
  );
  const body = new TextEncoder().encode(
    `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${list.join('')}</CompleteMultipartUpload>`,
  );
  const answer = await client.xml({ method: 'POST', key, query: { uploadId }, body });
  // The status is sent before the parts are joined, so a failure comes with a success.
  const code = elementOf(answer, 'Code');
  if (code !== undefined) throw failed(`to write ${client.nameOf(key)}`, { status: 200, code });
}

/** Writes a small object unless there is one. Returns whether the object that is there has these contents. */
export async function uploadNew(
  client: S3Client,
  key: string,
  body: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const headers = { 'if-none-match': '*' };
  const response = await client.request({ method: 'PUT', key, headers, body }, [412]);
  await response.body?.cancel();
  if (response.status !== 412) return true;
  // The answer to a first request may have been lost, after which the second one finds what the first one wrote.
  const there = await client.request({ method: 'GET', key }, [404]);
  const bytes = new Uint8Array(await there.arrayBuffer());
  const sum = (each: Uint8Array): string => createHash('sha256').update(each).digest('hex');
  return there.ok && sum(bytes) === sum(body);
}

/** Joins and cuts chunks into parts of one size, of which the last one may be smaller. */
async function* partsOf(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  partBytes: number,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let part = new Uint8Array(partBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.byteLength;) {
      const piece = chunk.subarray(at, at + partBytes - filled);
      part.set(piece, filled);
      filled += piece.byteLength;
      at += piece.byteLength;
      if (filled < partBytes) continue;
      yield part;
      part = new Uint8Array(partBytes);
      filled = 0;
    }
  }
  if (filled > 0) yield part.slice(0, filled);
}

function tooLarge(client: S3Client, key: string): CheckpointError {
  const { partBytes } = client.bucket;
  return new CheckpointError(
    {
      asked: `to write ${client.nameOf(key)}`,
      found: `more than ${MAX_PARTS} parts of ${partBytes} bytes`,
      todo: 'Give larger partBytes to s3Folder, or write smaller files',
    },
    { key, partBytes },
  );
}

function unexpected(client: S3Client, key: string, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `to write ${client.nameOf(key)}`,
      found: `an answer with ${found}`,
      todo: 'Check that the endpoint is an S3-compatible store',
    },
    { key },
  );
}
