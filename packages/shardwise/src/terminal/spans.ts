import type { Colour, Paint } from './paint.ts';

/** A part of a line, in one colour. */
export interface Span {
  readonly text: string;
  readonly colour?: Colour;
}

/** A line of a block: what it shows, and the spans. Without spans, the row is left out. */
export type LabelledRow = readonly [label: string, spans: readonly Span[]];

const LABEL_COLUMNS = 9;
const MAX_COLUMNS = 100;
const BAR_COLUMNS = 40;
export const GAP: Span = { text: '  ' };

/** Returns the columns that rows have beside their labels in a terminal. */
export function rowColumns(columns: number): number {
  return Math.min(columns - 1, MAX_COLUMNS) - LABEL_COLUMNS;
}

export function labelledLines(
  rows: readonly LabelledRow[],
  columns: number,
  paint: Paint,
): readonly string[] {
  return rows
    .filter(([, spans]) => spans.length > 0)
    .map(([label, spans]) => {
      const head: Span = { text: label.padEnd(LABEL_COLUMNS), colour: 'dim' };
      return paintLine([head, ...spans], columns, paint);
    });
}

/** Returns how far a run is, as counts, a bar and a text about the time that is left. */
export function progressSpans(
  step: number,
  totalSteps: number | undefined,
  time: string | undefined,
  width: number,
): readonly Span[] {
  if (totalSteps === undefined) return [{ text: String(step), colour: 'bold' }];
  const done = Math.min(1, step / totalSteps);
  const counts = `${step}/${totalSteps}`;
  const tail = `  ${(done * 100).toFixed(0)} %${time === undefined ? '' : `  ${time}`}`;
  const bar = Math.max(0, Math.min(BAR_COLUMNS, width - counts.length - tail.length - 2));
  const filled = Math.round(done * bar);
  return [
    { text: counts, colour: 'bold' },
    GAP,
    { text: '━'.repeat(filled), colour: 'green' },
    { text: '─'.repeat(bar - filled), colour: 'dim' },
    { text: tail },
  ];
}

/**
 * Colours a line and cuts it to the width of the terminal, because a line that wraps would break the erasing of the
 * block.
 */
export function paintLine(spans: readonly Span[], columns: number, paint: Paint): string {
  let room = columns - 1;
  let line = '';
  for (const { text, colour } of spans) {
    const cut = text.slice(0, Math.max(0, room));
    room -= cut.length;
    line += colour === undefined ? cut : paint(cut, colour);
  }
  return line.trimEnd();
}
