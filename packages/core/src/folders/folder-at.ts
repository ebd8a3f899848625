import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../spec/errors.ts';
import { diskFolder } from '../serialization/disk-folder.ts';
import {
  type FolderFile,
  isWritableFolder,
  type ModelFolder,
  type WritableFolder,
} from '../serialization/model-folder.ts';
import { hubFolder } from './hub-folder.ts';
import { isHubName } from './hub-options.ts';
import { httpFile, httpFolder } from './http-folder.ts';
import { s3Folder } from './s3-folder.ts';

/** Whether a text is the address of a place beyond the disk, such as `https://…` or `s3://…`. It is no path then. */
export function isAddress(place: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(place);
}

/**
 * The folder of a path, of a URL of http or https, or of an address such as `s3://bucket/prefix`. Throws ConfigError for
 * another scheme.
 */
export function folderAt(place: string): ModelFolder {
  if (/^https?:\/\//i.test(place)) return httpFolder(place);
  if (place.startsWith('s3://')) return s3Folder(place);
  if (place.startsWith('file://')) return diskFolder(fileURLToPath(place));
  if (!isAddress(place)) return diskFolder(place);
  throw new ConfigError(
    {
      asked: `to open ${place}`,
      found: 'a scheme that is not known here',
      todo: 'Give a path, a URL of https, or an address such as s3://bucket/prefix',
    },
    { place },
  );
}

/**
 * The folder of a model: that of a path or of an address, or, if there is no such path, the repository of the hub that has
 * this name, such as `organization/model`. Throws ConfigError as folderAt does.
 */
export function pretrainedFolderAt(place: string): ModelFolder {
  const isName = place.includes('/') && isHubName(place);
  return isName && !existsSync(place) ? hubFolder(place) : folderAt(place);
}

/**
 * The folder of an address, or a folder itself, to which files can be written, as to a bucket. Throws ConfigError for a
 * place that can only be read, as a web server.
 */
export function writableFolderAt(asked: string, place: string | ModelFolder): WritableFolder {
  const folder = typeof place === 'string' ? folderAt(place) : place;
  if (isWritableFolder(folder)) return folder;
  throw new ConfigError(
    {
      asked: `${asked} to ${folder.place}`,
      found: 'a place that can only be read',
      todo: 'Give the path of a folder, or an address such as s3://bucket/prefix',
    },
    { place: folder.place },
  );
}

/** The file of a path, of a URL, or of an address such as `s3://bucket/train.jsonl`. Throws ConfigError as folderAt does. */
export function fileAt(place: string): FolderFile {
  if (/^https?:\/\//i.test(place)) return httpFile(place);
  if (place.startsWith('file://')) return fileAt(fileURLToPath(place));
  // The folder without a name is the system's, so that errors call the file as the user does.
  if (!isAddress(place)) return { folder: diskFolder(''), name: place };
  const end = place.lastIndexOf('/');
  return { folder: folderAt(place.slice(0, end)), name: place.slice(end + 1) };
}
