/**
 * Draws the picture of ARCHITECTURE.md from the imports of the sources: the packages, their rooms (the folders of
 * `src`), and the way of a training step.
 *
 *   node tools/architecture/draw.ts
 *
 * `test/architecture.test.ts` fails while the picture differs from the sources.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageImports } from './import-edges.ts';
import { picture } from './picture.ts';

const file = join(import.meta.dirname, '../../docs/architecture.svg');
writeFileSync(file, picture(packageImports()));
