import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export const repository: string = join(import.meta.dirname, '..', '..', '..');

/** A path that users import, such as `@shardwise/core/extend`, and its file. */
export interface EntryPoint {
  readonly specifier: string;
  readonly file: string;
  /** The folder of the package. `description` is that of its package.json. */
  readonly folder: string;
  readonly description: string;
}

interface Manifest {
  readonly name: string;
  readonly description: string;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

const SOURCE = '@shardwise/source';

/** Returns every entry point of every package that is written in TypeScript. */
export function entryPoints(): readonly EntryPoint[] {
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
