import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { ROOMS } from '../../rooms.config.ts';

/** A lint rule for the files of one folder. */
export interface RoomRule {
  readonly files: string[];
  readonly pattern: { readonly regex: string; readonly message: string };
}

/** The rules by which lint refuses imports between rooms that are not in the table. */
export function roomRules(packageName: string): readonly RoomRule[] {
  const rows = ROOMS[packageName] ?? {};
  const sources = `packages/${packageName}/src`;
  requireOneWay(packageName, rows);
  const folders = foldersIn(join(import.meta.dirname, '../..', sources));
  return folders.flatMap((folder) => {
    const room = roomOf(folder, rows);
    const allowed = room === undefined ? undefined : rows[room];
    if (room === undefined || allowed === undefined) return [];
    const isAllowed = (other: string): boolean => {
      const target = roomOf(other, rows) ?? other;
      return target === room || allowed.some((name) => covers(name, target));
    };
    const refused = folders.filter((other) => !isAllowed(other));
    if (refused.length === 0) return [];
    // Imports are relative, so every folder has its own names for the others.
    const paths = refused.map((other) => {
      const path = relative(folder, other).replaceAll('\\', '/');
      return path.startsWith('.') ? path : `./${path}`;
    });
    const regex = `^(${paths.map((path) => path.replaceAll('.', '\\.')).join('|')})/[^/]+$`;
    const list = allowed.join(', ') || 'no other room';
    const message = `The room ${room} of packages/${packageName} may import only: ${list}.`;
    return [{ files: [`${sources}/${folder}/*.ts`], pattern: { regex, message } }];
  });
}

function foldersIn(sources: string): readonly string[] {
  return readdirSync(sources, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name, parentPath }) => relative(sources, join(parentPath, name)).replaceAll('\\', '/'))
    .toSorted();
}

/** The innermost room that contains a folder. */
function roomOf(folder: string, rows: object): string | undefined {
  const parts = folder.split('/');
  const names = parts.map((_, index) => parts.slice(0, parts.length - index).join('/'));
  return names.find((name) => Object.hasOwn(rows, name));
}

/** Whether a name of a row means a room. */
function covers(name: string, room: string): boolean {
  if (!name.endsWith('/*')) return name === room;
  const outer = name.slice(0, -2);
  return room === outer || room.startsWith(`${outer}/`);
}

function requireOneWay(
  packageName: string,
  rows: Readonly<Record<string, readonly string[]>>,
): void {
  const rooms = Object.keys(rows);
  const importsOf = (room: string): readonly string[] =>
    rooms.filter((other) => other !== room && rows[room]?.some((name) => covers(name, other)));
  const checked = new Set<string>();
  const visit = (room: string, above: readonly string[]): void => {
    if (checked.has(room)) return;
    if (above.includes(room)) {
      const circle = [...above.slice(above.indexOf(room)), room].join(' -> ');
      throw new Error(`rooms of packages/${packageName} import each other: ${circle}`);
    }
    for (const other of importsOf(room)) visit(other, [...above, room]);
    checked.add(room);
  };
  for (const room of rooms) visit(room, []);
}
