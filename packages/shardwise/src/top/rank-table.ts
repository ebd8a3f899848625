import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLoss,
  formatMilliseconds,
} from '../text/format.ts';
import { oneLine } from '../text/printable.ts';
import type { Colour } from '../terminal/paint.ts';
import type { Span } from '../terminal/spans.ts';
import type { RankSnapshot, RankStatus, RunSnapshot } from './run-snapshot.ts';

/** A table of ranks. Rows have a cell for each title. */
export interface RankTable {
  readonly titles: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

interface Column {
  readonly title: string;
  /** If columns do not fit, the one with the lowest weight is left out first. */
  readonly weight: number;
  /** Texts of names are on the left, and figures on the right. */
  readonly isText?: boolean;
  readonly cell: (rank: RankSnapshot, run: RunSnapshot) => string | undefined;
}

const MAX_HOST = 14;

/** Returns the part of a rank's step, such as `12 %`. */
const share =
  (part: (rank: RankSnapshot) => number | undefined) =>
  (rank: RankSnapshot): string | undefined => {
    const ms = part(rank);
    return ms === undefined || !rank.stepMs
      ? undefined
      : `${((100 * ms) / rank.stepMs).toFixed(0)} %`;
  };

const known =
  (value: (rank: RankSnapshot) => number | undefined, format: (value: number) => string) =>
  (rank: RankSnapshot): string | undefined => {
    const found = value(rank);
    return found === undefined ? undefined : format(found);
  };

const columns: readonly Column[] = [
  { title: 'rank', weight: 100, cell: ({ rank }) => String(rank) },
  {
    title: 'host',
    weight: 66,
    isText: true,
    cell: ({ host }, { hosts }) =>
      hosts.length > 1 ? oneLine(host ?? '').slice(0, MAX_HOST) : undefined,
  },
  { title: 'step', weight: 95, cell: known(({ step }) => step, String) },
  { title: 'loss', weight: 20, cell: known(({ loss }) => loss, formatLoss) },
  {
    title: 'tokens/s',
    weight: 90,
    cell: known(({ tokensPerSecond }) => tokensPerSecond || undefined, formatCount),
  },
  {
    title: 'samples/s',
    weight: 60,
    cell: known(({ samplesPerSecond }) => samplesPerSecond, formatCount),
  },
  { title: 'step time', weight: 30, cell: known(({ stepMs }) => stepMs, formatMilliseconds) },
  { title: 'compute', weight: 80, cell: share(({ computeMs }) => computeMs) },
  { title: 'comm', weight: 79, cell: share(({ communicationMs }) => communicationMs) },
  { title: 'wait', weight: 85, cell: share(({ waitingMs }) => waitingMs) },
  { title: 'data', weight: 40, cell: share(({ dataMs }) => dataMs) },
  { title: 'memory', weight: 70, cell: known(({ memoryBytes }) => memoryBytes, formatBytes) },
  {
    title: 'sent/s',
    weight: 65,
    cell: known(({ sentBytesPerSecond }) => sentBytesPerSecond, formatBytes),
  },
  {
    title: 'recv/s',
    weight: 64,
    cell: known(({ receivedBytesPerSecond }) => receivedBytesPerSecond, formatBytes),
  },
  { title: 'state', weight: 99, isText: true, cell: stateText },
];

/** The colours of states that somebody should look at. */
const stateColours: Partial<Readonly<Record<RankStatus, Colour>>> = {
  failed: 'red',
  quiet: 'red',
  behind: 'yellow',
  slow: 'yellow',
  waiting: 'dim',
  ended: 'dim',
};

/** Says what is the matter with a rank. Nothing is said of one that is like the others. */
export function stateText(rank: RankSnapshot, { ranks }: RunSnapshot): string | undefined {
  switch (rank.state) {
    case 'failed':
      return `failed (${rank.exitCode})`;
    case 'quiet':
      return `quiet ${formatDuration(rank.quietMs)}`;
    case 'behind':
      return `${Math.max(...ranks.map(({ step = 0 }) => step)) - (rank.step ?? 0)} behind`;
    case 'slow':
      return `slow +${(100 * (rank.slowness ?? 0)).toFixed(0)} %`;
    case 'waiting':
      return 'no step yet';
    case 'ended':
      return 'ended';
    case 'running':
      return undefined;
    default:
      return rank.state satisfies never;
  }
}

/** Returns the table of some ranks, without the columns that no rank has, and without those of `drawn`. */
export function rankTable(
  run: RunSnapshot,
  ranks: readonly RankSnapshot[],
  drawn: readonly string[],
): RankTable {
  const table = filled(run, ranks).filter(({ title }) => !drawn.includes(title));
  return {
    titles: table.map(({ title }) => title),
    rows: ranks.map((_, row) => table.map(({ cells }) => cells[row] ?? '')),
  };
}

/** Returns the lines of the table of some ranks, of which none fills `width` columns. */
export function rankTableLines(
  run: RunSnapshot,
  ranks: readonly RankSnapshot[],
  width: number,
): readonly (readonly Span[])[] {
  let table = filled(run, ranks);
  const columnsOf = ({ title, cells }: FilledColumn): number =>
    Math.max(title.length, ...cells.map((cell) => cell.length));
  const needed = (): number => table.reduce((sum, column) => sum + columnsOf(column) + 2, 0);
  while (table.length > 1 && needed() > width) {
    const least = Math.min(...table.map(({ weight }) => weight));
    table = table.filter(({ weight }) => weight !== least);
  }
  const aligned = (column: FilledColumn, text: string): string =>
    column.isText ? text.padEnd(columnsOf(column)) : text.padStart(columnsOf(column));
  const head: Span = {
    text: table.map((column) => aligned(column, column.title)).join('  '),
    colour: 'dim',
  };
  const lines = ranks.map((rank, row): readonly Span[] =>
    table.flatMap((column, index): readonly Span[] => {
      const text = `${index === 0 ? '' : '  '}${aligned(column, column.cells[row] ?? '')}`;
      const colour = stateColours[rank.state];
      return [column.title === 'state' && colour !== undefined ? { text, colour } : { text }];
    }),
  );
  return [[head], ...lines];
}

interface FilledColumn {
  readonly title: string;
  readonly weight: number;
  readonly isText: boolean;
  readonly cells: readonly string[];
}

function filled(run: RunSnapshot, ranks: readonly RankSnapshot[]): readonly FilledColumn[] {
  return columns.flatMap(({ title, weight, isText = false, cell }) => {
    const cells = ranks.map((rank) => cell(rank, run) ?? '');
    return cells.every((text) => text === '') ? [] : [{ title, weight, isText, cells }];
  });
}
