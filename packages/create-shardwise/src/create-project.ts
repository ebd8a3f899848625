import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageVersion } from './package-version.ts';

const templates = fileURLToPath(new URL('../templates', import.meta.url));

/** Entries that a folder may contain and still count as empty. */
const ALLOWED: ReadonlySet<string> = new Set(['.git']);

/** The projects that can be made, and what is in them. The first one is made if none is named. */
export const TEMPLATES = {
  spirals: 'a classifier of points, with tests (the default)',
  gpt: 'a small GPT-2 that learns to write like a text file',
  classifier: 'a BERT that is fine-tuned to classify the texts of a CSV or JSON-lines file',
  lora: 'a language model that learns instructions by adapters of low rank',
} as const;

export type TemplateName = keyof typeof TEMPLATES;

export function isTemplate(name: string): name is TemplateName {
  return Object.hasOwn(TEMPLATES, name);
}

/** Makes the project and returns its folder's path. Throws UsageError if the folder exists and is not empty. */
export function createProject(folder: string, template: TemplateName = 'spirals'): string {
  const path = resolve(folder);
  makeFolder(path);
  const name = packageName(basename(path));
  cpSync(join(templates, template), path, { recursive: true });
  // npm leaves out files named .gitignore when it packs, so the template has another name for it.
  renameSync(join(path, 'gitignore'), join(path, '.gitignore'));
  const readme = join(path, 'README.md');
  writeFileSync(readme, readFileSync(readme, 'utf8').replace('# NAME', `# ${name}`));
  writeFileSync(
    join(path, 'package.json'),
    `${JSON.stringify(manifest(name, template), null, 2)}\n`,
  );
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

/** Returns a name that npm accepts: lower case and without spaces. */
function packageName(text: string): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[._-]+|-+$/g, '');
  return name === '' ? 'training' : name.slice(0, 200);
}

/** What templates import besides `shardwise`. */
const MODELS = ['@shardwise/core', '@shardwise/data', '@shardwise/models'];

function manifest(name: string, template: TemplateName): object {
  const isSpirals = template === 'spirals';
  const packages = ['shardwise', ...(isSpirals ? [] : MODELS)].toSorted();
  return {
    name,
    version: '0.0.0',
    private: true,
    type: 'module',
    scripts: {
      train: `shardwise run --nproc 2 ${isSpirals ? 'src/train.ts' : 'train.ts'}`,
      ...(isSpirals ? { test: 'node --test' } : {}),
      typecheck: 'tsc',
    },
    dependencies: Object.fromEntries(packages.map((each) => [each, `^${packageVersion()}`])),
    devDependencies: { '@types/node': '^24.19.2', typescript: '^7.0.2' },
    engines: { node: '>=24.9' },
  };
}

/** The command was asked for something that it can't do. The message says everything, so no stack is shown. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
