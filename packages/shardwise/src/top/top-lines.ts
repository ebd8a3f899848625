import { displayPath } from '../text/display-path.ts';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLoss,
  formatMilliseconds,
} from '../text/format.ts';
import { oneLine } from '../text/printable.ts';
import { sparkline } from '../text/sparkline.ts';
import type { Colour, Paint } from '../terminal/paint.ts';
import {
  GAP,
  labelledLines,
  type LabelledRow,
  paintLine,
  progressSpans,
  rowColumns,
  type Span,
} from '../terminal/spans.ts';
import { rankTableLines } from './rank-table.ts';
import type { RankSnapshot, RunSnapshot } from './run-snapshot.ts';
import { worstFirst } from './take-snapshot.ts';

/** What `shardwise top` shows. */
export interface TopView {
  readonly run: RunSnapshot;
  /** The snapshots that it has seen, the oldest first. */
  readonly history: readonly RunSnapshot[];
  /** For how long the launcher has written nothing. Undefined if it writes, or the run is over. */
  readonly silentMs: number | undefined;
}

export interface TopSize {
  readonly columns: number;
  /** The rows of the terminal. Infinity if the lines go elsewhere. */
  readonly rows: number;
}

const SPARK_COLUMNS = 30;

/** Returns the lines that show a run: the totals, and below them its ranks, the worst first. */
export function topLines(
  view: TopView,
  { columns, rows }: TopSize,
  paint: Paint,
): readonly string[] {
  const { run } = view;
  const width = rowColumns(columns);
  const head = labelledLines(
    [
      ['run', runSpans(run)],
      ['state', stateSpans(view)],
      ['step', stepSpans(run, width)],
      ['loss', lossSpans(view)],
      ['speed', speedSpans(view)],
      ['time', timeSpans(run)],
      ['memory', memorySpans(run)],
      ['network', networkSpans(run)],
      ['slow', slowSpans(run)],
    ] satisfies readonly LabelledRow[],
    columns,
    paint,
  );
  const sorted = worstFirst(run.ranks);
  // Beside the ranks: an empty line, the titles, the line about the others, and the line of the cursor.
  const room = Math.max(1, rows - head.length - 4);
  const shown = sorted.length > room + 1 ? sorted.slice(0, room) : sorted;
  const left = run.worldSize - shown.length;
  const table = rankTableLines(run, shown, columns - 1).map((spans) =>
    paintLine(spans, columns, paint),
  );
  const rest = left === 0 ? [] : [paintLine([restSpan(left)], columns, paint)];
  // Lines beyond the terminal's height could not be erased.
  return [...head, '', ...table, ...rest].slice(0, Math.max(1, rows - 1));
}

function restSpan(left: number): Span {
  const ranks = left === 1 ? 'rank, which is' : 'ranks, which are';
  return { text: `and ${left} more ${ranks} no worse`, colour: 'dim' };
}

function runSpans({ script, worldSize, hosts, runDirectory }: RunSnapshot): readonly Span[] {
  const ranks = worldSize === 1 ? '1 rank' : `${worldSize} ranks`;
  const where = hosts.length > 1 ? ` of ${hosts.length} hosts` : '';
  return [
    { text: oneLine(script), colour: 'bold' },
    { text: ` on ${ranks}${where}` },
    { text: `  ${oneLine(displayPath(runDirectory))}`, colour: 'dim' },
  ];
}

const phases: Readonly<Record<RunSnapshot['phase'], readonly [text: string, colour: Colour]>> = {
  gathering: ['waiting to start', 'yellow'],
  starting: ['starting', 'yellow'],
  running: ['running', 'green'],
  stopping: ['stopping at the next shouldStop()', 'yellow'],
  finished: ['finished', 'green'],
  stopped: ['stopped', 'yellow'],
  failed: ['failed', 'red'],
};

function stateSpans({ run, silentMs }: TopView): readonly Span[] {
  const [text, colour] = phases[run.phase];
  const silence: readonly Span[] =
    silentMs === undefined
      ? []
      : [{ text: `  no word of its launcher for ${formatDuration(silentMs)}`, colour: 'red' }];
  const restarts: readonly Span[] =
    run.restarts === 0
      ? []
      : [{ text: `  restart ${run.restarts}: ${oneLine(run.restartReason ?? '')}` }];
  const reason = run.reason === undefined ? '' : `: ${oneLine(run.reason)}`;
  return [
    { text, colour },
    { text: `${reason}  ${formatDuration(run.writtenMs - run.startMs)}` },
    ...silence,
    ...restarts,
  ];
}

function stepSpans(
  { step, totalSteps, leftMs, checkpointStep }: RunSnapshot,
  width: number,
): readonly Span[] {
  if (step === undefined) return [];
  const saved = checkpointStep === undefined ? '' : `  saved ${checkpointStep}`;
  const time = leftMs === undefined ? undefined : `ETA ${formatDuration(leftMs)}`;
  return [
    ...progressSpans(step, totalSteps, time, width - saved.length),
    { text: saved, colour: 'dim' },
  ];
}

function lossSpans({ run, history }: TopView): readonly Span[] {
  const { loss, validationLoss } = run;
  if (loss === undefined) return [];
  return [
    { text: formatLoss(loss), colour: Number.isFinite(loss) ? 'bold' : 'red' },
    GAP,
    { text: course(history.flatMap((each) => each.loss ?? [])), colour: 'green' },
    { text: validationLoss === undefined ? '' : `  validation ${formatLoss(validationLoss)}` },
  ];
}

function speedSpans({ run, history }: TopView): readonly Span[] {
  const { tokensPerSecond, samplesPerSecond, stepMs } = run;
  if (stepMs === undefined) return [];
  const rates = [
    [tokensPerSecond, 'tokens/s'],
    [samplesPerSecond, 'samples/s'],
  ] as const;
  const speeds = history.flatMap((each) => (each.stepMs ? 1000 / each.stepMs : []));
  return [
    ...rates.flatMap(([rate, unit]): readonly Span[] =>
      rate ? [{ text: formatCount(rate), colour: 'bold' }, { text: ` ${unit}  ` }] : [],
    ),
    { text: `${formatMilliseconds(stepMs)}/step  ` },
    { text: course(speeds), colour: 'green' },
  ];
}

function course(values: readonly number[]): string {
  return values.length < 2 ? '' : sparkline(values, SPARK_COLUMNS);
}

/** The parts of the step of the mean rank. */
function timeSpans({ ranks }: RunSnapshot): readonly Span[] {
  const sum = (part: (rank: RankSnapshot) => number | undefined): number =>
    ranks.reduce((total, rank) => total + (part(rank) ?? 0), 0);
  const total = sum(({ stepMs }) => stepMs);
  if (total === 0) return [];
  const percent = (ms: number): string => `${((100 * ms) / total).toFixed(0)} %`;
  const communication = sum(({ communicationMs }) => communicationMs);
  const waiting = sum(({ waitingMs }) => waitingMs);
  const wait = waiting > 0 ? ` (${percent(waiting)} waiting)` : '';
  return [
    { text: `compute ${percent(sum(({ computeMs }) => computeMs))}`, colour: 'cyan' },
    GAP,
    { text: `communication ${percent(communication)}${wait}`, colour: 'yellow' },
    GAP,
    { text: `data ${percent(sum(({ dataMs }) => dataMs))}`, colour: 'green' },
    GAP,
    { text: `graph ${percent(sum(({ graphMs }) => graphMs))}`, colour: 'magenta' },
  ];
}

function memorySpans({ memoryBytes, ranks }: RunSnapshot): readonly Span[] {
  if (memoryBytes === undefined) return [];
  const most = ranks.toSorted((a, b) => (b.memoryBytes ?? 0) - (a.memoryBytes ?? 0))[0];
  const of = most?.memoryBytes;
  const peak =
    of === undefined || ranks.length === 1
      ? ''
      : `, most on rank ${most?.rank}: ${formatBytes(of)}`;
  return [{ text: `${formatBytes(memoryBytes)}${peak}` }];
}

function networkSpans({
  sentBytesPerSecond: sent,
  receivedBytesPerSecond: received,
}: RunSnapshot): readonly Span[] {
  if (sent === undefined || received === undefined) return [];
  return [{ text: `sent ${formatBytes(sent)}/s  received ${formatBytes(received)}/s` }];
}

/** Names the rank that the others wait for. */
function slowSpans({ ranks, hosts }: RunSnapshot): readonly Span[] {
  const worst = ranks
    .filter(({ state }) => state === 'slow')
    .toSorted((a, b) => (b.slowness ?? 0) - (a.slowness ?? 0))[0];
  if (worst === undefined) return [];
  const where = hosts.length > 1 && worst.host !== undefined ? ` on ${oneLine(worst.host)}` : '';
  const waited = Math.max(...ranks.map(({ waitingMs = 0 }) => waitingMs));
  return [
    { text: `rank ${worst.rank}${where}`, colour: 'yellow' },
    {
      text: ` takes ${(100 * (worst.slowness ?? 0)).toFixed(0)} % longer; others wait up to ${formatMilliseconds(waited)} a step`,
    },
  ];
}
