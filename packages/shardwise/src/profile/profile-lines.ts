import { type Paint, uncoloured } from '../terminal/paint.ts';
import type { RankProfile } from '../run-state/rank-profile.ts';
import { formatMilliseconds } from '../text/format.ts';
import { printable } from '../text/printable.ts';
import { wrapText } from '../text/wrap-text.ts';
import { adviceOn, notesOn, percent } from './advice.ts';
import { moduleTable, operationTable, type ProfileTable, waitTable } from './profile-tables.ts';
import { type ProfileSummary, stepParts, stepsText, sumOf, summarizeProfile } from './summarize.ts';

const MAX_COLUMNS = 110;
const MAX_ROWS = 12;

/** Returns the lines that show the profiles of ranks in a terminal of this width. */
export function profileLines(
  profiles: readonly RankProfile[],
  { columns = MAX_COLUMNS, paint = uncoloured }: { columns?: number; paint?: Paint } = {},
): readonly string[] {
  const profile = summarizeProfile(profiles);
  const width = Math.min(columns, MAX_COLUMNS);
  return [
    paint(headLine(profile), 'bold'),
    ...timeLines(profile),
    rooflineLine(profile),
    ...notesOn(profile).flatMap((note) =>
      wrapText(note, width - 2).map((line) => `  ${paint(line, 'yellow')}`),
    ),
    '',
    ...adviceLines(profile, width, paint),
    '',
    paint('By operation, for one step', 'bold'),
    ...tableLines(operationTable(profile), MAX_ROWS, 24, paint),
    '',
    paint('By module, with all modules in it, for one step', 'bold'),
    ...tableLines(moduleTable(profile), MAX_ROWS, Math.max(24, width - 72), paint),
    ...(profile.waits.length === 0
      ? []
      : [
          '',
          paint('Waits for other ranks, for one step', 'bold'),
          ...tableLines(waitTable(profile), MAX_ROWS, 28, paint),
        ]),
  ];
}

export function headLine(profile: ProfileSummary): string {
  const { ranks, stepMs } = profile;
  const of = ranks.length === 1 ? `rank ${ranks[0]?.rank}` : `${ranks.length} ranks`;
  return `Profile of ${stepsText(profile)} on ${of}: ${formatMilliseconds(stepMs)} a step`;
}

function timeLines({ ranks }: ProfileSummary): readonly string[] {
  return ranks.map((profile) => {
    const shares = stepParts.map(
      ([key, name]) => `${name} ${percent(profile[key] / profile.stepMs)}`,
    );
    return `  rank ${profile.rank}: ${shares.join(' · ')}`;
  });
}

/** Says how much of the time and of the peak products take. */
function rooflineLine({ rows, stepMs, productsMs, mfu, roofline }: ProfileSummary): string {
  const { f32, half, bytesPerSecond } = roofline;
  const speed = sumOf(rows, 'flops') / stepMs / 1e6;
  const peaks = [
    ...(f32 === undefined ? [] : [`${(f32 / 1e9).toFixed(0)} GFLOP/s (f32)`]),
    ...(half === undefined ? [] : [`${(half / 1e9).toFixed(0)} GFLOP/s (16 bits)`]),
    ...(bytesPerSecond === undefined ? [] : [`${(bytesPerSecond / 1e9).toFixed(1)} GB/s`]),
  ];
  return [
    `  products: ${percent(productsMs / stepMs)} of the time, ${speed.toFixed(1)} GFLOP/s`,
    ...(mfu === undefined ? [] : [`MFU ${percent(mfu)}`]),
    peaks.length === 0 ? 'peak of the device unknown' : `peak: ${peaks.join(', ')}`,
  ].join(' · ');
}

function adviceLines(profile: ProfileSummary, width: number, paint: Paint): readonly string[] {
  const indent = ' '.repeat(10);
  return [
    paint('What to do first', 'bold'),
    ...adviceOn(profile).flatMap(({ limit, share, found, todo }) => {
      const [first = '', ...more] = wrapText(
        printable(`${limit}: ${found}`),
        width - indent.length,
      );
      const advice = wrapText(todo, width - indent.length - 2);
      return [
        `${percent(share).padStart(8)}  ${first}`,
        ...more.map((line) => `${indent}${line}`),
        ...advice.map(
          (line, index) => `${indent}${paint(`${index === 0 ? '→' : ' '} ${line}`, 'yellow')}`,
        ),
      ];
    }),
  ];
}

/** Returns a table of which the first `most` rows are shown, with names of at most `nameWidth` characters. */
function tableLines(
  { titles, names, rows }: ProfileTable,
  most: number,
  nameWidth: number,
  paint: Paint,
): readonly string[] {
  const shown = rows
    .slice(0, most)
    .map((row) => row.map((cell, at) => (at < names ? shortened(cell, nameWidth) : cell)));
  const widths = titles.map((title, at) =>
    Math.max(title.length, ...shown.map((row) => row[at]?.length ?? 0)),
  );
  const lineOf = (row: readonly string[]): string =>
    `  ${row.map((cell, at) => (at < names ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))).join('  ')}`.trimEnd();
  const more = rows.length - shown.length;
  return [
    paint(lineOf(titles), 'dim'),
    ...shown.map(lineOf),
    ...(more > 0 ? [`  and ${more} more`] : []),
  ];
}

/** Shortens a path at its beginning. */
function shortened(path: string, width: number): string {
  const text = printable(path);
  return text.length <= width ? text : `…${text.slice(text.length - width + 1)}`;
}
