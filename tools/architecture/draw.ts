/**
 * Draws the packages, their rooms (the folders of `src`) and the way of a training step, from the imports of the
 * sources. Writes the picture of ARCHITECTURE.md and the maps at the end of the packages' READMEs:
 *
 *   node tools/architecture/draw.ts
 *
 * `test/architecture.test.ts` fails while they differ from the sources.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { picture } from './picture.ts';
import { mapOf } from './room-map.ts';
import { packageImports } from './import-edges.ts';

const root = resolve(import.meta.dirname, '../..');
const BEGIN = '<!-- The map is made by tools/architecture/draw.ts. -->';

/** A file that the script writes, and what it should contain. */
export interface Drawn {
  readonly path: string;
  readonly contents: string;
}

/** Returns the files that this script writes, as they should be. */
export function drawnFiles(): readonly Drawn[] {
  const packages = packageImports();
  return [
    { path: 'docs/architecture.svg', contents: picture(packages) },
    ...packages.map((each) => {
      const path = `packages/${each.name}/README.md`;
      const [text = ''] = readFileSync(join(root, path), 'utf8').split(BEGIN);
      return { path, contents: `${text.trimEnd()}\n\n${BEGIN}\n\n${mapOf(each)}` };
    }),
  ];
}

if (import.meta.main) {
  for (const { path, contents } of drawnFiles()) writeFileSync(join(root, path), contents);
}
