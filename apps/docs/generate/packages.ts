import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export const repository: string = join(import.meta.dirname, '..', '..', '..');

/** A path that users import, `@shardwise/core/extend`, and the file that it is. */
export interface Door {
  readonly specifier: string;
  readonly file: string;
  /** Of the package: its folder and what its package.json says that it is. */
  readonly folder: string;
  readonly description: string;
}

interface Manifest {
  readonly name: string;
  readonly description: string;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

const SOURCE = '@shardwise/source';

/** Every entry point of every package that is TypeScript. */
export function doors(): readonly Door[] {
  const packages = join(repository, 'packages');
  return readdirSync(packages)
    .filter((name) => existsSync(join(packages, name, 'package.json')))
    .flatMap((name) => {
      const folder = join(packages, name);
      const manifest: Manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
      return Object.entries(manifest.exports).flatMap(([path, target]) => {
        const source = typeof target === 'string' ? undefined : target[SOURCE];
        if (source === undefined) return [];
        return {
          specifier: manifest.name + path.slice(1),
          file: join(folder, source),
          folder,
          description: manifest.description,
        };
      });
    });
}
