import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageVersion } from './package-version.ts';

const template = fileURLToPath(new URL('../template', import.meta.url));

/** What may lie in a folder that is as good as empty. */
const ALLOWED: ReadonlySet<string> = new Set(['.git']);

/** Makes the project and returns its folder's path. Throws UsageError where anything is there already. */
export function createProject(folder: string): string {
  const path = resolve(folder);
  makeFolder(path);
  const name = packageName(basename(path));
  cpSync(template, path, { recursive: true });
  // npm leaves out a .gitignore of what it packs.
  renameSync(join(path, 'gitignore'), join(path, '.gitignore'));
  const readme = join(path, 'README.md');
  writeFileSync(readme, readFileSync(readme, 'utf8').replace('# NAME', `# ${name}`));
  writeFileSync(join(path, 'package.json'), `${JSON.stringify(manifest(name), null, 2)}\n`);
  return path;
}

function makeFolder(path: string): void {
  let entries: readonly string[];
  try {
    mkdirSync(path, { recursive: true });
    entries = readdirSync(path).filter((entry) => !ALLOWED.has(entry));
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new UsageError(`Creating a project in ${path}: ${found}. Give another folder`, {
      cause: error,
    });
  }
  if (entries.length === 0) return;
  const [first] = entries;
  const more = entries.length === 1 ? '' : ` and ${entries.length - 1} more`;
  throw new UsageError(
    `Creating a project in ${path}: it is not empty (${first}${more}). ` +
      'Give the name of a new folder: npm create shardwise NAME',
  );
}

/** As npm wants it: lower case, no spaces. */
function packageName(text: string): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|-+$/g, '');
  return name === '' ? 'training' : name.slice(0, 200);
}

function manifest(name: string): object {
  return {
    name,
    version: '0.0.0',
    private: true,
    type: 'module',
    scripts: {
      train: 'shardwise run --nproc 2 src/train.ts',
      test: 'node --test',
      typecheck: 'tsc',
    },
    dependencies: { shardwise: `^${packageVersion()}` },
    devDependencies: { '@types/node': '^24.19.2', typescript: '^7.0.2' },
    engines: { node: '>=24.9' },
  };
}

/** What the command was asked for and can't do; its message says all that there is to know. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
