import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

/** A package of the workspace: its folders, and what they import of each other and of other packages. */
export interface PackageImports {
  readonly name: string;
  /** The folders of `src` that contain files, such as `realize` or `realize/memory`, and '' for `src` itself. */
  readonly folders: readonly string[];
  /** The other packages that any file imports, also only types. */
  readonly packages: readonly string[];
  /** The folders that each folder imports, also only types. */
  readonly imports: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Statements that import, also those that import only types, and import(). */
const SPECIFIER = /(?:\bfrom\s*|^import\s*|\bimport\(\s*)['"]([^'"]+)['"]/gm;

/** Returns the imports of each package, read from its sources. */
export function packageImports(): readonly PackageImports[] {
  return readdirSync(join(root, 'packages')).toSorted().map(importsOf);
}

function importsOf(name: string): PackageImports {
  const source = join(root, 'packages', name, 'src');
  const folders = new Set<string>();
  const packages = new Set<string>();
  const imports = new Map<string, Set<string>>();
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((path) => path.endsWith('.ts'))) {
    const folder = folderOf(file);
    folders.add(folder);
    const own = imports.get(folder) ?? new Set<string>();
    imports.set(folder, own);
    for (const [, specifier = ''] of readFileSync(join(source, file), 'utf8').matchAll(SPECIFIER)) {
      if (specifier.startsWith('.')) {
        const target = folderOf(relative(source, resolve(source, dirname(file), specifier)));
        if (target !== folder) own.add(target);
      } else {
        const [, other] = /^@shardwise\/([\w-]+)/.exec(specifier) ?? [];
        if (other !== undefined && other !== name) packages.add(other);
      }
    }
  }
  return {
    name,
    folders: [...folders].toSorted(),
    packages: [...packages].toSorted(),
    imports,
  };
}

function folderOf(file: string): string {
  const folder = dirname(file).replaceAll('\\', '/');
  return folder === '.' ? '' : folder;
}

/** Returns the first part of a folder's path: the room that it belongs to. */
function roomOf(folder: string): string {
  return folder.split('/')[0] ?? folder;
}

/** Returns the rooms of a package. Files beside the rooms belong to none. */
export function roomsOf({ folders }: PackageImports): readonly string[] {
  return [...new Set(folders.map(roomOf))].filter((room) => room !== '');
}

/** Returns the other rooms that a room imports. */
export function importsOfRoom(
  { folders, imports }: PackageImports,
  room: string,
): ReadonlySet<string> {
  const own = folders.filter((folder) => roomOf(folder) === room);
  const rooms = own.flatMap((folder) => [...(imports.get(folder) ?? [])].map(roomOf));
  return new Set(rooms.filter((other) => other !== room && other !== ''));
}

/**
 * Orders names such that each comes after those that it imports. Where names import each other, the one that imports
 * fewer comes first.
 */
export function inOrderOfImports(
  names: readonly string[],
  importsOfName: (name: string) => Iterable<string>,
): readonly string[] {
  const ordered: string[] = [];
  let rest = names.toSorted();
  while (rest.length > 0) {
    const missing = (name: string): number =>
      [...importsOfName(name)].filter((other) => other !== name && rest.includes(other)).length;
    const fewest = Math.min(...rest.map(missing));
    const next = rest.find((name) => missing(name) === fewest) ?? '';
    ordered.push(next);
    rest = rest.filter((name) => name !== next);
  }
  return ordered;
}

/** Returns the packages that a package imports and that none of its other imports imports for it. */
export function directImports(
  name: string,
  packages: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const reaches = (from: string, to: string): boolean =>
    (packages.get(from) ?? []).some((next) => next === to || reaches(next, to));
  const own = packages.get(name) ?? [];
  return own.filter((target) => !own.some((other) => other !== target && reaches(other, target)));
}
