import { glob } from 'node:fs/promises';
import { checkIndex, DataError, type ModelFolder, pathIn } from '@shardwise/core/extend';
import { isAddress } from '@shardwise/core/node';
import { folderBytes } from '../datasets/folder-bytes.ts';
import { folderOf } from './folder-of.ts';
import type { Rows } from '../datasets/rows.ts';
import type { ImageFile } from '../images/process-images.ts';

/** The images of a folder, and the names of their classes. */
export interface ImageRows extends Rows<ImageFile> {
  readonly classes: readonly string[];
}

const IMAGE = /^[^/]+\/.+\.(jpg|jpeg|png|webp)$/i;

/**
 * The images of a folder that has a folder for each class, such as `train/cat/1.jpg` (`ImageFolder` of torchvision). The
 * folder is a path, an address such as `s3://bucket/images`, or another folder whose files can be listed. Classes and files
 * are ordered by their names, by UTF-16 unit, which is the same on every machine. Images are decoded by `processImages`.
 * Node only. Throws DataError if there are no images.
 */
export async function readImageFolder(place: string | ModelFolder): Promise<ImageRows> {
  const folder = folderOf('readImageFolder', place);
  const onDisk = typeof place === 'string' && !isAddress(place) ? place : undefined;
  const names = onDisk === undefined ? await namesIn(folder) : await namesOnDisk(onDisk);
  const paths = names.filter((name) => IMAGE.test(name)).toSorted(byUnit);
  const classOf = (path: string): string => path.slice(0, path.indexOf('/'));
  const classes = [...new Set(paths.map(classOf))].toSorted(byUnit);
  if (paths.length === 0)
    throw noImages(folder.place, 'none that end with .jpg, .jpeg, .png or .webp');
  return {
    classes,
    length: paths.length,
    get: async (index) => {
      checkIndex(index, paths.length);
      const path = paths[index] ?? '';
      const file = await folderBytes(folder, path);
      return { bytes: await file.read(0, file.size), label: classes.indexOf(classOf(path)) };
    },
    nameOf: (index) => pathIn(folder, paths[index] ?? ''),
  };
}

async function namesOnDisk(path: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const name of glob('*/**/*', { cwd: path })) names.push(name.replaceAll('\\', '/'));
  return names;
}

async function namesIn(folder: ModelFolder): Promise<readonly string[]> {
  if (folder.list === undefined)
    throw noImages(folder.place, 'a place that gives no list of its files');
  return (await folder.list('')).map(({ name }) => name);
}

function byUnit(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function noImages(place: string, found: string): DataError {
  return new DataError(
    {
      asked: `images in folders of ${place}`,
      found,
      todo: 'Give a folder that has a folder for each class, such as train/cat/1.jpg',
    },
    { folder: place },
  );
}
