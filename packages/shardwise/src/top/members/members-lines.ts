import type { Colour, Paint } from '../../terminal/paint.ts';
import {
  GAP,
  labelledLines,
  type LabelledRow,
  paintLine,
  type Span,
} from '../../terminal/spans.ts';
import { formatBytes, formatLoss, formatMilliseconds } from '../../text/format.ts';
import { oneLine } from '../../text/printable.ts';
import { sparkline } from '../../text/sparkline.ts';
import { auditText } from '../../together/protocol/audit-text.ts';
import type { MemberStatus, RunStatus } from '../../together/protocol/run-status.ts';

/** What `shardwise top` shows of members that come and go. */
export interface MembersView {
  /** The address of their coordinator. */
  readonly url: string;
  readonly status: RunStatus;
  /** What it has seen, the oldest first. */
  readonly history: readonly RunStatus[];
}

const SPARK_COLUMNS = 30;
const SHARE_COLUMNS = 10;

/** The colours of places that somebody should look at. */
const placeColours: Partial<Readonly<Record<MemberStatus['place'], Colour>>> = {
  'catching up': 'yellow',
  'waiting for the state': 'yellow',
  arriving: 'dim',
  auditing: 'cyan',
};

const columns = [
  { title: 'member', isText: true, cell: ({ name, number }) => `${oneLine(name)} (${number})` },
  { title: 'place', isText: true, cell: ({ place }) => place },
  { title: 'rounds', cell: ({ updates }) => String(updates) },
  { title: 'samples/s', cell: ({ samplesPerSecond }) => perSecond(samplesPerSecond) },
  { title: 'share', cell: ({ share }) => `${Math.round(100 * share)} %` },
  {
    title: '',
    isText: true,
    cell: ({ share }) => '■'.repeat(Math.round(SHARE_COLUMNS * share)).padEnd(SHARE_COLUMNS, '·'),
  },
  { title: 'link', isText: true, cell: ({ link }) => link },
  {
    title: 'round trip',
    cell: ({ linkMs }) => (linkMs === null ? '' : formatMilliseconds(linkMs)),
  },
  { title: 'loss', cell: ({ loss }) => (loss === null ? '' : formatLoss(loss)) },
] as const satisfies readonly {
  readonly title: string;
  readonly isText?: boolean;
  readonly cell: (member: MemberStatus) => string;
}[];

/** Returns the lines that show who trains together. `rows` are those of the terminal, or Infinity. */
export function membersLines(
  { url, status, history }: MembersView,
  size: { readonly columns: number; readonly rows: number },
  paint: Paint,
): readonly string[] {
  const head = labelledLines(
    [
      ['run', [{ text: url, colour: 'bold' }]],
      ['members', membersSpans(status)],
      ['rounds', [{ text: String(status.completed), colour: 'bold' }]],
      ['loss', lossSpans(history)],
      ['speed', speedSpans(history)],
      ['relay', [{ text: `${formatBytes(status.relayedBytes)} passed on` }]],
      ['audits', status.audits.share === 0 ? [] : [{ text: auditText(status.audits) }]],
    ] satisfies readonly LabelledRow[],
    size.columns,
    paint,
  );
  // Beside the members: an empty line, the titles, the line about the others, and the line of the cursor.
  const room = Math.max(1, size.rows - head.length - 4);
  const { members } = status;
  const shown = members.length > room + 1 ? members.slice(0, room) : members;
  const left = members.length - shown.length;
  const rest: readonly Span[] = left === 0 ? [] : [{ text: `and ${left} more`, colour: 'dim' }];
  const table = [...memberTable(shown), rest].filter((spans) => spans.length > 0);
  const lines = [...head, '', ...table.map((spans) => paintLine(spans, size.columns, paint))];
  return lines.slice(0, Math.max(1, size.rows - 1));
}

function membersSpans({ members }: RunStatus): readonly Span[] {
  const training = members.filter(({ place }) => place === 'training').length;
  return [
    { text: String(members.length), colour: 'bold' },
    { text: ` of whom ${training} train`, colour: training === 0 ? 'yellow' : 'green' },
  ];
}

/** The mean of the losses that members have reported. */
function lossSpans(history: readonly RunStatus[]): readonly Span[] {
  const losses = history.flatMap(({ members }) => {
    const known = members.flatMap(({ loss }) => loss ?? []);
    return known.length === 0 ? [] : known.reduce((sum, each) => sum + each, 0) / known.length;
  });
  const latest = losses.at(-1);
  if (latest === undefined) return [];
  return [{ text: formatLoss(latest), colour: 'bold' }, GAP, course(losses)];
}

function speedSpans(history: readonly RunStatus[]): readonly Span[] {
  const speeds = history.map(({ members }) =>
    members.reduce((sum, { samplesPerSecond }) => sum + samplesPerSecond, 0),
  );
  const text = perSecond(speeds.at(-1) ?? 0);
  return [{ text, colour: 'bold' }, { text: ' samples/s' }, GAP, course(speeds)];
}

function course(values: readonly number[]): Span {
  return { text: values.length < 2 ? '' : sparkline(values, SPARK_COLUMNS), colour: 'green' };
}

function memberTable(members: readonly MemberStatus[]): readonly (readonly Span[])[] {
  if (members.length === 0) return [];
  const filled = columns.map((column) => {
    const cells = members.map(column.cell);
    const width = Math.max(column.title.length, ...cells.map(({ length }) => length));
    const isText = 'isText' in column;
    const aligned = (text: string): string => (isText ? text.padEnd(width) : text.padStart(width));
    return { title: column.title, cells, aligned };
  });
  const titles = filled.map(({ title, aligned }) => aligned(title)).join('  ');
  const rows = members.map(({ place }, row): readonly Span[] =>
    filled.flatMap(({ title, cells, aligned }, at): readonly Span[] => {
      const text = `${at === 0 ? '' : '  '}${aligned(cells[row] ?? '')}`;
      const colour = title === 'place' ? placeColours[place] : title === '' ? 'green' : undefined;
      return [colour === undefined ? { text } : { text, colour }];
    }),
  );
  return [[{ text: titles, colour: 'dim' }], ...rows];
}

function perSecond(samples: number): string {
  return samples.toFixed(samples < 10 ? 1 : 0);
}
