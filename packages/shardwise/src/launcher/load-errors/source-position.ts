import { fileURLToPath } from 'node:url';
import { displayPath } from '../../text/display-path.ts';
import { printable } from '../../text/printable.ts';

/** A place in a file that could not be loaded. */
export interface SourcePosition {
  /** The absolute path. */
  readonly path: string;
  /** The number of the line, from 1. */
  readonly line: number;
  /** The number of the column, from 1. */
  readonly column: number;
  /** The text of the whole line. */
  readonly text: string;
}

/**
 * Matches what Node puts in front of a stack: `file:///a/train.ts:3`, lines of the file, and carets below the last
 * line.
 */
const HEAD =
  /^(?<place>(?:file:\/\/|\/|[A-Za-z]:\\)[^\n]*):(?<line>\d+)\n(?:[^\n]*\n){0,3}?(?<text>[^\n]*)\n(?<indent>[ \t]*)\^/;

/** Returns the place in a file that Node names at the head of a text. The text is a stack, or what Node prints. */
export function positionAtHead(text: string): SourcePosition | undefined {
  const { place, line, text: found, indent } = HEAD.exec(text)?.groups ?? {};
  if (place === undefined || found === undefined || indent === undefined) return undefined;
  const path = place.startsWith('file://') ? fileURLToPath(place) : place;
  return { path, line: Number(line), column: indent.length + 1, text: found };
}

/** Returns the line and column of an offset in a file's text. */
export function positionAt(path: string, source: string, offset: number): SourcePosition {
  const before = source.slice(0, offset).split('\n');
  const line = before.length;
  const column = (before.at(-1) ?? '').length + 1;
  return { path, line, column, text: (source.split('\n')[line - 1] ?? '').replace(/\r$/, '') };
}

const MAX_COLUMNS = 100;

/**
 * Returns the lines that show a place: `at train.ts:3:16`, the line of the file, and a mark below the place. A long
 * line is cut around the place.
 */
export function excerpt({ path, line, column, text }: SourcePosition): readonly string[] {
  const start = Math.max(0, Math.min(column - 1 - MAX_COLUMNS / 2, text.length - MAX_COLUMNS));
  const shown = printable(text.slice(start, start + MAX_COLUMNS)).replaceAll('\t', ' ');
  const number = String(line);
  return [
    `    at ${displayPath(path)}:${line}:${column}`,
    `  ${number} | ${shown}`,
    `  ${' '.repeat(number.length)} | ${' '.repeat(column - 1 - start)}^`,
  ];
}
