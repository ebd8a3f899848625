import { httpFile, type HttpOptions } from '@shardwise/core/extend';
import type { ByteSource } from './byte-source.ts';
import { folderBytes } from './folder-bytes.ts';

/**
 * The bytes of what a server has at a URL, read in ranges. Every store whose URLs can be signed is read in this way, too.
 * Throws DataError if the server does not answer with ranges, has nothing there, or has something else than before.
 */
export async function httpBytes(url: string | URL, options: HttpOptions = {}): Promise<ByteSource> {
  const { folder, name } = httpFile(url, options);
  return folderBytes(folder, name);
}
