import {
  type FolderEntry,
  MAX_TEXT_BYTES,
  type WritableFolder,
} from '../serialization/model-folder.ts';
import { rangedFile } from './http-file.ts';
import { readLimited, refused } from './http-request.ts';
import { elementOf, S3Client } from './s3-client.ts';
import { s3Bucket, type S3Options } from './s3-options.ts';
import { upload, uploadNew } from './s3-upload.ts';

/** More files than a folder of checkpoints or of shards has. */
const MAX_ENTRIES = 1_000_000;

/**
 * A folder of a bucket of S3 or of another store with its interface, such as R2, MinIO or Ceph: `s3://bucket/prefix`. Files
 * are read in ranges, and written in parts. It needs the package aws4fetch. Node only. Throws ConfigError for an address
 * that is no such one; its files throw CheckpointError. Source: the Amazon S3 API Reference.
 */
export function s3Folder(address: string, options: S3Options = {}): WritableFolder {
  const client = new S3Client(s3Bucket(address, options));
  const { prefix, retries } = client.bucket;
  return {
    place: client.nameOf(prefix).replace(/\/$/, ''),

    async readText(name) {
      const response = await client.request({ method: 'GET', key: prefix + name }, [404]);
      if (response.status === 404) {
        await response.body?.cancel();
        return undefined;
      }
      const bytes = await readLimited(client.nameOf(prefix + name), response, MAX_TEXT_BYTES);
      return new TextDecoder().decode(bytes);
    },

    async open(name) {
      const key = prefix + name;
      const { status, headers } = await client.request({ method: 'HEAD', key }, [404]);
      if (status === 404) return undefined;
      const [byteLength, version] = [Number(headers.get('content-length')), headers.get('etag')];
      if (!Number.isSafeInteger(byteLength) || version === null) {
        const todo = 'Check that the endpoint is an S3-compatible store';
        throw refused(client.nameOf(key), 'an answer without length or ETag', todo);
      }
      const place = { url: client.urlOf(key), send: client.send, retries };
      return rangedFile(place, { byteLength, version });
    },

    list: (under) => listEntries(client, prefix, under),
    write: (name, chunks) => upload(client, prefix + name, chunks),
    writeNew: (name, contents) => uploadNew(client, prefix + name, contents),

    async remove(names) {
      for (const name of names) {
        const response = await client.request({ method: 'DELETE', key: prefix + name }, [404]);
        await response.body?.cancel();
      }
    },
  };
}

async function listEntries(
  client: S3Client,
  prefix: string,
  under: string,
): Promise<readonly FolderEntry[]> {
  const entries: FolderEntry[] = [];
  const list = { 'list-type': '2', 'encoding-type': 'url', prefix: prefix + under };
  let token: string | undefined;
  do {
    const next: Record<string, string> = token === undefined ? {} : { 'continuation-token': token };
    const xml = await client.xml({ method: 'GET', key: '', query: { ...list, ...next } });
    const isEncoded = elementOf(xml, 'EncodingType') === 'url';
    for (const [, content = ''] of xml.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
      entries.push(entryOf(client, prefix, content, isEncoded));
    }
    const isTruncated = elementOf(xml, 'IsTruncated') === 'true';
    const following = isTruncated ? elementOf(xml, 'NextContinuationToken') : undefined;
    if ((isTruncated && (following ?? token) === token) || entries.length > MAX_ENTRIES) {
      const found = 'a list that does not end';
      throw refused(client.nameOf(prefix + under), found, `Give a prefix with fewer files`);
    }
    token = following;
  } while (token !== undefined);
  return entries;
}

function entryOf(client: S3Client, prefix: string, xml: string, isEncoded: boolean): FolderEntry {
  const found = elementOf(xml, 'Key') ?? '';
  const key = isEncoded ? decodeURIComponent(found.replaceAll('+', ' ')) : found;
  const byteLength = Number(elementOf(xml, 'Size'));
  const modifiedMs = Date.parse(elementOf(xml, 'LastModified') ?? '');
  if (key.startsWith(prefix) && Number.isSafeInteger(byteLength) && !Number.isNaN(modifiedMs)) {
    return { name: key.slice(prefix.length), byteLength, modifiedMs };
  }
  const todo = 'Check that the endpoint is an S3-compatible store';
  throw refused(client.nameOf(prefix), 'a list with a malformed entry', todo);
}
