import { readFile, stat } from 'node:fs/promises';
import { dirname, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A file of the user, with its current contents. */
export interface ScriptFile {
  readonly path: string;
  readonly source: string;
  readonly imports: readonly ScriptImport[];
}

interface ScriptImport {
  readonly specifier: string;
  /** The file that the import names. Undefined for a package. */
  readonly path: string | undefined;
  /** The offset of the specifier in the source. */
  readonly offset: number;
}

/**
 * Match import statements, `import('x')`, and the modules that are given to the workers of data loaders. A match in a
 * comment does no harm.
 */
const IMPORTS = [
  /\bfrom\s*(['"])(?<specifier>[^'"\n]+)\1/dg,
  /\bimport\s*(['"])(?<specifier>[^'"\n]+)\1/dg,
  /\bimport\s*\(\s*(['"])(?<specifier>[^'"\n]+)\1/dg,
  /\bnew\s+URL\s*\(\s*(['"])(?<specifier>[^'"\n]+)\1\s*,\s*import\.meta\.url/dg,
];
const CODE = /\.[cm]?[jt]sx?$/;
const MAX_FILES = 500;
const MAX_BYTES = 4 * 1024 * 1024;

/** Returns a script and the files that it imports directly or indirectly, except those of installed packages. */
export async function scriptFiles(script: string): Promise<readonly ScriptFile[]> {
  const paths = [script];
  const files: ScriptFile[] = [];
  for (const path of paths) {
    const source = await readSource(path);
    if (source === undefined) continue;
    const imports = importsOf(path, source);
    files.push({ path, source, imports });
    for (const { path: next } of imports) {
      const isOwn = next !== undefined && !next.includes(`${sep}node_modules${sep}`);
      if (isOwn && paths.length < MAX_FILES && !paths.includes(next)) paths.push(next);
    }
  }
  return files;
}

function importsOf(path: string, source: string): readonly ScriptImport[] {
  return IMPORTS.flatMap((pattern) => [...source.matchAll(pattern)])
    .map((match) => {
      const specifier = match.groups?.['specifier'] ?? '';
      const [offset = match.index] = match.indices?.groups?.['specifier'] ?? [];
      return { specifier, path: pathOf(specifier, path), offset };
    })
    .toSorted((a, b) => a.offset - b.offset);
}

function pathOf(specifier: string, importer: string): string | undefined {
  if (/^\.{0,2}\//.test(specifier)) return resolve(dirname(importer), specifier);
  return URL.canParse(specifier) && specifier.startsWith('file://')
    ? fileURLToPath(specifier)
    : undefined;
}

/** Returns the source of a file. Returns undefined for files that contain no code. */
async function readSource(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() !== true || found.size > MAX_BYTES || !CODE.test(path)) return undefined;
  return readFile(path, 'utf8').catch(() => undefined);
}
