import { computeLetters } from '../actions/action-text.ts';
import {
  formatNumber,
  type PictureCell,
  type PictureRow,
  type SchedulePicture,
} from './schedule-picture.ts';

/** Writes a line for each rank. `|` begins an action, whose label follows. Dots mean waiting. */
export function printSchedule(picture: SchedulePicture, columns: number): string {
  const { title, panels, endMs } = picture;
  const rows = panels.flatMap((panel) => panel.rows);
  const labelWidth = Math.max(...rows.map(({ label }) => label.length));
  const perMs = Math.min(
    columns / Math.max(endMs, Number.MIN_VALUE),
    rows
      .flatMap(({ cells }) => cells.map(neededPerMs))
      .reduce((most, needed) => Math.max(most, needed), 0),
  );
  const width = Math.round(endMs * perMs);
  return [
    title,
    ...panels.flatMap(({ heading, rows: own }) => [
      heading,
      ...own.map(
        (row) =>
          `${row.label.padEnd(labelWidth)} ${line(row, perMs, width)}${row.note === '' ? '' : `  ${row.note}`}`,
      ),
    ]),
    `${' '.repeat(labelWidth)} 0${`${formatNumber(endMs)} ms`.padStart(width)}`,
  ].join('\n');
}

function labelOf({ parts }: PictureCell): string {
  return parts.map(({ label }) => label).join('+');
}

/** Returns the columns per millisecond for which the cell's label fits. */
function neededPerMs(cell: PictureCell): number {
  const lengthMs = cell.endMs - cell.startMs;
  return lengthMs > 0 ? (labelOf(cell).length + 1) / lengthMs : 0;
}

function line({ cells }: PictureRow, perMs: number, width: number): string {
  const characters = Array.from({ length: width + 1 }, () => '.');
  for (const cell of cells) {
    const start = Math.round(cell.startMs * perMs);
    const length = Math.round(cell.endMs * perMs) - start;
    const cellCharacters = cellText(cell, length);
    for (let offset = 0; offset < cellCharacters.length; offset++) {
      characters[start + offset] = cellCharacters.charAt(offset);
    }
    // If the next action begins at once, its own mark overwrites this one.
    if (length > 1) characters[start + length] = '|';
  }
  return characters.join('');
}

/**
 * Writes the label after a mark. If there is not enough room, writes the letters of its kinds, and cuts them off if
 * these do not fit either.
 */
function cellText(cell: PictureCell, length: number): string {
  const label = labelOf(cell);
  if (label.length < length) return `|${label}`.padEnd(length);
  const letters = cell.parts.map(({ kind }) => computeLetters[kind]).join('');
  return letters.length < length ? `|${letters}`.padEnd(length) : letters.slice(0, length);
}
