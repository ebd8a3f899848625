import { tokensPerSecond, type RunState } from '../run-state/run-state.ts';
import {
  formatCount,
  formatDuration,
  formatLoss,
  formatMetric,
  formatMilliseconds,
} from '../text/format.ts';
import { chartCards } from './chart-cards.ts';
import { comparedCard, type ComparedRun } from './compared-card.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { hoverScript } from './hover-script.ts';
import { pageStyle } from './page-style.ts';

export interface ReportOptions {
  readonly isOver: boolean;
  /** How the run stands to its plan, if it has one. */
  readonly compared?: ComparedRun | undefined;
}

/**
 * Returns the whole report as one page that needs no network and no other file. The run may be over or still running.
 */
export function htmlReport(
  state: RunState,
  { isOver, compared }: ReportOptions = { isOver: true },
): string {
  const { head } = state;
  const status = statusOf(state, isOver);
  const date = new Date(head.startMs).toLocaleString('en-GB', {
    dateStyle: 'long',
    timeStyle: 'short',
  });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escapeHtml(head.script)} · Shardwise</title>
<style>${pageStyle}</style>
</head>
<body>
<main>
<header>
<h1>${escapeHtml(head.script)}<span class="chip ${status}">${status}</span></h1>
<p class="sub">${escapeHtml(`${date} · ${head.worldSize} rank${head.worldSize === 1 ? '' : 's'} · ${head.engine}`)}</p>
</header>
<section class="tiles">${tiles(state).map(tile).join('')}</section>
<section class="cards">
${[...(compared === undefined ? [] : [comparedCard(compared)]), ...chartCards(state)].join('\n')}
<section class="card wide"><div class="head"><h2>This run</h2></div>${factTable(state)}</section>
</section>
</main>
<div id="tip" role="tooltip"></div>
<script>${hoverScript}</script>
</body>
</html>
`;
}

type Status = 'running' | 'finished' | 'stopped' | 'failed';

function statusOf({ exitCodes, stopping }: RunState, isOver: boolean): Status {
  if (exitCodes.some((code) => code !== undefined && code !== 0)) return 'failed';
  if (!isOver) return 'running';
  return stopping ? 'stopped' : 'finished';
}

/** The greatest number of tiles for metrics. Other metrics are only in their charts. */
const METRIC_TILES = 4;

function tiles(state: RunState): readonly (readonly [value: string, label: string])[] {
  const { latest, totalSteps, history, recent, head, metrics } = state;
  const validation = history.points.findLast((point) => point.validationLoss !== undefined);
  const rate = tokensPerSecond(state);
  const done = latest === undefined ? 0 : latest.step;
  return [
    ...(latest?.loss === undefined ? [] : [[formatLoss(latest.loss), 'last loss'] as const]),
    ...(validation?.validationLoss === undefined
      ? []
      : [[formatLoss(validation.validationLoss), 'validation loss'] as const]),
    ...Object.entries(metrics)
      .slice(0, METRIC_TILES)
      .map(([name, value]) => [formatMetric(value), name] as const),
    [totalSteps === undefined ? String(done) : `${done} / ${totalSteps}`, 'steps'],
    [formatDuration((latest?.endMs ?? head.startMs) - head.startMs), 'duration'],
    ...(rate === undefined ? [] : [[formatCount(rate), 'tokens per second'] as const]),
    ...(recent === undefined ? [] : [[formatMilliseconds(recent.stepMs), 'per step'] as const]),
  ];
}

function tile([value, label]: readonly [value: string, label: string]): string {
  return `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(label)}</span></div>`;
}

const filesOfRun: readonly (readonly [string, string])[] = [
  ['Every step', 'metrics.jsonl'],
  ['Trace', 'trace.json (for Perfetto or chrome://tracing)'],
];

function factTable({ head, facts, checkpoint, restarts }: RunState): string {
  const rows: readonly (readonly [string, string])[] = [
    ...(head.command === undefined ? [] : [['Command', head.command] as const]),
    ...(head.runDirectory === undefined ? [] : [['Run directory', head.runDirectory] as const]),
    ...(head.transport === undefined ? [] : [['Transport', head.transport] as const]),
    ...restarts.map(
      ({ reason, worldSize }, index) =>
        [`Restart ${index + 1}`, `${reason} (then ${worldSize} ranks)`] as const,
    ),
    ...Object.entries(facts).map(([name, value]) => [capitalized(name), factText(value)] as const),
    ...(checkpoint === undefined ? [] : [['Checkpoint', checkpoint.directory] as const]),
    ...(head.runDirectory === undefined ? [] : filesOfRun),
  ];
  const cells = rows.map(
    ([name, value]) =>
      `<tr><th scope="row">${escapeHtml(name)}</th><td><code>${escapeHtml(value)}</code></td></tr>`,
  );
  return `<table>${cells.join('')}</table>`;
}

function factText(value: string | number | boolean): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : String(value);
}

function capitalized(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
