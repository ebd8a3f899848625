import { fileURLToPath } from 'node:url';
import { displayPath } from '../../text/display-path.ts';
import { printable } from '../../text/printable.ts';

/** A place in a file that could not be loaded. */
export interface SourcePosition {
  /** Absolute path. */
  readonly path: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  /** The whole line. */
  readonly text: string;
}

/** `file:///a/train.ts:3`, lines of the file, and carets below the last one: what Node puts before a stack. */
const HEAD =
  /^(?<place>(?:file:\/\/|\/|[A-Za-z]:\\)[^\n]*):(?<line>\d+)\n(?:[^\n]*\n){0,3}?(?<text>[^\n]*)\n(?<indent>[ \t]*)\^/;

/** Where Node says at the head of a text, a stack or what it prints, that a file is wrong. */
export function positionAtHead(text: string): SourcePosition | undefined {
  const { place, line, text: found, indent } = HEAD.exec(text)?.groups ?? {};
  if (place === undefined || found === undefined || indent === undefined) return undefined;
  const path = place.startsWith('file://') ? fileURLToPath(place) : place;
  return { path, line: Number(line), column: indent.length + 1, text: found };
}

/** The line and column of an offset in a file's text. */
export function positionAt(path: string, source: string, offset: number): SourcePosition {
  const before = source.slice(0, offset).split('\n');
  const line = before.length;
  const column = (before.at(-1) ?? '').length + 1;
  return { path, line, column, text: (source.split('\n')[line - 1] ?? '').replace(/\r$/, '') };
}

const MAX_COLUMNS = 100;

/** `at train.ts:3:16`, the line, and a mark below the place; a long line is cut around it. */
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
