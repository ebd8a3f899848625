import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  checkIndex,
  checkOptions,
  DataError,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { Rows } from '../datasets/rows.ts';
import type { ImageFile } from '../images/process-images.ts';

/** The images of a folder, and the names of their classes. */
export interface ImageRows extends Rows<ImageFile> {
  readonly classes: readonly string[];
}

const folderRules: OptionRules<{ readonly folder: string }> = {
  folder: option.required(option.nonEmptyText),
};

/**
 * The images of a folder that has a folder for each class, such as `train/cat/1.jpg` (`ImageFolder` of torchvision). Classes
 * and files are ordered by their names, by UTF-16 unit, which is the same on every machine. Images are
 * decoded by `processImages`. Node only. Throws DataError if there are no images.
 */
export async function readImageFolder(folder: string): Promise<ImageRows> {
  checkOptions('readImageFolder', { folder }, folderRules);
  const paths: string[] = [];
  for await (const path of glob('*/**/*.{jpg,jpeg,png,webp,JPG,JPEG,PNG,WEBP}', { cwd: folder })) {
    paths.push(path.replaceAll('\\', '/'));
  }
  paths.sort();
  const classOf = (path: string): string => path.slice(0, path.indexOf('/'));
  const classes = [...new Set(paths.map(classOf))].sort();
  if (paths.length === 0) {
    throw new DataError(
      {
        asked: `images in folders of ${folder}`,
        found: 'none that end with .jpg, .jpeg, .png or .webp',
        todo: 'Give a folder that has a folder for each class, such as train/cat/1.jpg',
      },
      { folder },
    );
  }
  return {
    classes,
    length: paths.length,
    get: async (index) => {
      checkIndex(index, paths.length);
      const path = paths[index] ?? '';
      const bytes = Uint8Array.from(await readFile(join(folder, path)));
      return { bytes, label: classes.indexOf(classOf(path)) };
    },
    nameOf: (index) => join(folder, paths[index] ?? ''),
  };
}
