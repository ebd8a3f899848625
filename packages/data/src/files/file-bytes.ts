import { fileAt } from '@shardwise/core/node';
import type { ByteSource } from '../datasets/byte-source.ts';
import { folderBytes } from '../datasets/folder-bytes.ts';

/**
 * The bytes of the file at a path, at a URL of http or https, or at an address such as `s3://bucket/train.jsonl`. A file of
 * the disk is opened for each read, so nothing has to be closed. Node only. Throws DataError if there is no such file.
 */
export async function fileBytes(place: string): Promise<ByteSource> {
  const { folder, name } = fileAt(place);
  return folderBytes(folder, name);
}
