import { figureOf } from '../run-state/named-metrics.ts';
import {
  samplesPerSecond,
  timeLeft,
  tokensPerSecond,
  type RunState,
} from '../run-state/run-state.ts';
import { otherMs, type StepSummary } from '../run-state/summary.ts';
import {
  formatBytes,
  formatCount,
  formatLoss,
  formatMetric,
  formatMilliseconds,
} from '../text/format.ts';
import { displayPath } from '../text/display-path.ts';
import type { Colour, Paint } from './paint.ts';
import {
  GAP,
  labelledLines,
  type LabelledRow,
  progressSpans,
  rowColumns,
  type Span,
} from './spans.ts';
import { sparkline } from '../text/sparkline.ts';

/** The number of columns of a metric's sparkline. METRIC_ROWS is the greatest number of rows of all metrics. */
const METRIC_COLUMNS = 10;
const METRIC_ROWS = 3;
/** The columns of a text such as `  and 12 more`. */
const MORE_COLUMNS = 13;

/** Returns the lines of the block that stays at the bottom of the terminal while a run lasts. */
export function liveBlock(state: RunState, columns: number, paint: Paint): readonly string[] {
  const width = rowColumns(columns);
  const rows: readonly LabelledRow[] = [
    ['run', runSpans(state)],
    ['step', stepSpans(state, width)],
    ['loss', lossSpans(state, width)],
    ...metricRows(state, width),
    ['speed', speedSpans(state)],
    ['time', timeSpans(state.latest, width)],
    ['memory', memorySpans(state)],
    ['stop', stopSpans(state)],
  ];
  return labelledLines(rows, columns, paint);
}

function runSpans({ head }: RunState): readonly Span[] {
  const ranks = head.worldSize === 1 ? '1 rank' : `${head.worldSize} ranks`;
  return [
    { text: head.script, colour: 'bold' },
    { text: ` on ${ranks}` },
    ...(head.runDirectory === undefined
      ? []
      : [{ text: `  ${displayPath(head.runDirectory)}`, colour: 'dim' } as const]),
  ];
}

function stepSpans(state: RunState, width: number): readonly Span[] {
  const { latest, totalSteps } = state;
  if (latest === undefined) return [{ text: 'waiting for the first step', colour: 'dim' }];
  return progressSpans(latest.step, totalSteps, timeLeft(state), width);
}

function lossSpans({ latest, history }: RunState, width: number): readonly Span[] {
  if (latest?.loss === undefined) return [];
  const losses = history.points.map(({ loss }) => loss).filter((loss) => loss !== undefined);
  const validation = history.points.findLast((point) => point.validationLoss !== undefined);
  const number = formatLoss(latest.loss);
  const tail =
    validation?.validationLoss === undefined
      ? ''
      : `  validation ${formatLoss(validation.validationLoss)}`;
  const room = Math.max(0, Math.min(40, width - number.length - tail.length - 2));
  return [
    { text: number, colour: Number.isFinite(latest.loss) ? 'bold' : 'red' },
    GAP,
    { text: sparkline(losses, room), colour: 'green' },
    { text: tail },
  ];
}

/** Returns rows with the value and the sparkline of each metric, as many in a row as there is room for. */
function metricRows({ metrics, history }: RunState, width: number): readonly LabelledRow[] {
  const rows: Span[][] = [];
  let used = 0;
  const entries = Object.entries(metrics);
  for (const [index, [name, value]] of entries.entries()) {
    const values = history.points.flatMap((point) => figureOf(point.metrics, name) ?? []);
    const spans = [
      { text: `${name} ` },
      { text: formatMetric(value), colour: Number.isFinite(value) ? 'bold' : 'red' },
      { text: ` ${sparkline(values, METRIC_COLUMNS)}`, colour: 'green' },
    ] as const satisfies readonly Span[];
    const columns = spans.reduce((sum, { text }) => sum + text.length, 0);
    const isLastRow = rows.length === METRIC_ROWS && index < entries.length - 1;
    const room = isLastRow ? width - MORE_COLUMNS : width;
    const isFull = rows.length === 0 || used + GAP.text.length + columns > room;
    if (isFull && rows.length === METRIC_ROWS) {
      rows.at(-1)?.push({ text: `  and ${entries.length - index} more`, colour: 'dim' });
      break;
    }
    if (isFull) rows.push([...spans]);
    else rows.at(-1)?.push(GAP, ...spans);
    used = isFull ? columns : used + GAP.text.length + columns;
  }
  return rows.map((spans, row) => [row === 0 ? 'metrics' : '', spans]);
}

function speedSpans(state: RunState): readonly Span[] {
  if (state.recent === undefined) return [];
  const rates = [
    [tokensPerSecond(state), 'tokens/s'],
    [samplesPerSecond(state), 'samples/s'],
  ] as const;
  return [
    ...rates.flatMap(([rate, unit]): readonly Span[] =>
      rate === undefined
        ? []
        : [{ text: formatCount(rate), colour: 'bold' }, { text: ` ${unit}  ` }],
    ),
    { text: `${formatMilliseconds(state.recent.stepMs)}/step` },
  ];
}

/** Returns what a step's time was spent on, in the order of the bar. */
function timeParts(
  summary: StepSummary,
): readonly { readonly name: string; readonly ms: number; readonly colour: Colour }[] {
  return [
    { name: 'compute', ms: summary.computeMs, colour: 'cyan' },
    { name: 'communication', ms: summary.communicationMs, colour: 'yellow' },
    { name: 'data', ms: summary.dataMs, colour: 'green' },
    { name: 'graph', ms: summary.graphMs, colour: 'magenta' },
    { name: 'other', ms: otherMs(summary), colour: 'dim' },
  ];
}

function timeSpans(latest: StepSummary | undefined, width: number): readonly Span[] {
  if (latest === undefined || latest.stepMs === 0) return [];
  const parts = timeParts(latest);
  const total = parts.reduce((sum, { ms }) => sum + ms, 0);
  const legend = parts.map(({ name, ms, colour }) => ({
    text: `${name} ${((100 * ms) / total).toFixed(0)} %`,
    colour,
    ms,
  }));
  // If there is no room for all parts, the smallest ones are left out.
  const columns = (): number => legend.reduce((sum, { text }) => sum + text.length + 2, -2);
  while (legend.length > 0 && columns() > width) {
    const least = Math.min(...legend.map(({ ms }) => ms));
    legend.splice(
      legend.findIndex(({ ms }) => ms === least),
      1,
    );
  }
  const bar = Math.max(0, Math.min(20, width - columns() - 2));
  let end = 0;
  let drawn = 0;
  const blocks = parts.map(({ ms, colour }): Span => {
    end += ms;
    const cells = Math.round((end / total) * bar) - drawn;
    drawn += cells;
    return { text: '█'.repeat(cells), colour };
  });
  const texts = legend.flatMap(({ text, colour }, index): Span[] =>
    index === 0 && bar === 0 ? [{ text, colour }] : [GAP, { text, colour }],
  );
  return [...blocks, ...texts];
}

function memorySpans({ latest, processBytes }: RunState): readonly Span[] {
  const ranks = (latest?.memoryBytes ?? []).map((bytes, rank) =>
    bytes === undefined ? '' : `rank ${rank} ${formatBytes(bytes)}`,
  );
  const parts = ranks.filter((text) => text !== '');
  const all = [
    ...parts,
    ...(processBytes === undefined ? [] : [`process ${formatBytes(processBytes)}`]),
  ];
  return all.length === 0 ? [] : [{ text: all.join(' · ') }];
}

function stopSpans({ stopping, exitCodes }: RunState): readonly Span[] {
  if (!stopping || !exitCodes.includes(undefined)) return [];
  return [
    { text: 'stopping at the next shouldStop()', colour: 'yellow' },
    { text: '; press Ctrl-C again to stop at once' },
  ];
}
