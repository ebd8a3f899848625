import { printable } from '../../text/printable.ts';
import type { Link, LinkReport } from './link-report.ts';

/** How a figure of a link is shown. */
export interface LinkFigure {
  readonly title: string;
  readonly of: (link: Link) => number;
  readonly format: (value: number) => string;
  /** Of several links between two hosts, the worst one counts. */
  readonly worst: (...values: readonly number[]) => number;
}

export const linkFigures: readonly LinkFigure[] = [
  {
    title: 'bandwidth in GB/s',
    of: ({ bytesPerSecond }) => bytesPerSecond / 1e9,
    format: threeDigits,
    worst: Math.min,
  },
  {
    title: 'latency in µs',
    of: ({ latencyUs }) => latencyUs,
    format: threeDigits,
    worst: Math.max,
  },
];

function threeDigits(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : value >= 1 ? 2 : 3);
}

/** A square of figures. Both sides have the same names. */
export interface Matrix {
  readonly names: readonly string[];
  /** Undefined where there is no link. */
  readonly rows: readonly (readonly (number | undefined)[])[];
}

/** Returns the figures between ranks, or between hosts if there are more than `maxRanks` ranks on several hosts. */
export function matrixOf(
  { ranks, links }: LinkReport,
  figure: LinkFigure,
  maxRanks: number,
): Matrix {
  const hosts = [...new Set(ranks.map(({ host }) => host))];
  const byHost = ranks.length > maxRanks && hosts.length > 1;
  const names = byHost ? hosts : ranks.map((_, rank) => String(rank));
  const placeOf = (rank: number): number =>
    byHost ? hosts.indexOf(ranks[rank]?.host ?? '') : rank;
  const rows: (number | undefined)[][] = names.map(() => names.map(() => undefined));
  for (const link of links) {
    const [a, b] = [placeOf(link.from), placeOf(link.to)];
    for (const [row, column] of [
      [a, b],
      [b, a],
    ] as const) {
      const cells = rows[row];
      if (cells === undefined) continue;
      const before = cells[column];
      const value = figure.of(link);
      cells[column] = before === undefined ? value : figure.worst(before, value);
    }
  }
  return { names, rows };
}

const CELL_COLUMNS = 7;
const MAX_NAME = 16;

/** Returns the matrices of a report for a terminal of this width. What does not fit beside each other is below. */
export function linkLines(report: LinkReport, columns: number): readonly string[] {
  const fitting = Math.max(1, Math.floor((columns - MAX_NAME) / CELL_COLUMNS));
  return linkFigures.flatMap((figure) => {
    const { names, rows } = matrixOf(report, figure, fitting);
    const shown = names.map((name) => printable(name).slice(0, MAX_NAME));
    const nameColumns = Math.max(4, ...shown.map(({ length }) => length));
    const bands = Math.ceil(names.length / fitting);
    return Array.from({ length: bands }, (_, band) => {
      const from = band * fitting;
      const cell = (text: string): string => text.slice(0, CELL_COLUMNS - 1).padStart(CELL_COLUMNS);
      return [
        band === 0 ? figure.title : '',
        `${' '.repeat(nameColumns)}${shown
          .slice(from, from + fitting)
          .map(cell)
          .join('')}`,
        ...rows.map(
          (row, index) =>
            `${(shown[index] ?? '').padEnd(nameColumns)}${row
              .slice(from, from + fitting)
              .map((value) => cell(value === undefined ? '·' : figure.format(value)))
              .join('')}`,
        ),
        '',
      ];
    }).flat();
  });
}
