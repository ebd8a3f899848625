import { rename, writeFile } from 'node:fs/promises';
import { HALF, lineCard, drawCard } from '../report/card.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { pageStyle } from '../report/page-style.ts';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLoss,
  formatMilliseconds,
} from '../text/format.ts';
import { rankTable, stateText } from './rank-table.ts';
import { isOver, type RankSnapshot, type RunSnapshot, SNAPSHOT_MS } from './run-snapshot.ts';
import { worstFirst } from './take-snapshot.ts';
import type { TopView } from './top-lines.ts';

const style = `
.tile b{font-size:19px;white-space:nowrap}
.ranks td,.ranks th{white-space:nowrap;padding:4px 14px 4px 0}
.ranks td{width:auto;text-align:right}
.ranks thead th{text-align:right}
.ranks tr.failed td,.ranks tr.quiet td{color:var(--red)}.ranks tr.behind td,.ranks tr.slow td{color:var(--orange)}
.ranks .parts{width:100%;min-width:140px}
.parts div{display:flex;height:10px;border-radius:3px;overflow:hidden;background:var(--lane)}
.chip.gathering,.chip.starting,.chip.stopping{color:var(--orange)}
`;

/** Replaces the file of a page as a whole, so that no browser sees a part of it. */
export async function writeTopPage(path: string, view: TopView): Promise<void> {
  await writeFile(`${path}.tmp`, topPage(view));
  await rename(`${path}.tmp`, path);
}

/** Returns a page that shows a run, needs no network and no other file, and loads itself again while the run lasts. */
export function topPage(view: TopView): string {
  const { run, silentMs } = view;
  const again = isOver(run)
    ? ''
    : `<meta http-equiv="refresh" content="${(2 * SNAPSHOT_MS) / 1000}">`;
  const ranks = run.worldSize === 1 ? '1 rank' : `${run.worldSize} ranks`;
  const hosts = run.hosts.length > 1 ? ` of ${run.hosts.length} hosts` : '';
  const notes = [
    silentMs === undefined ? undefined : `No word of its launcher for ${formatDuration(silentMs)}.`,
    run.reason,
    run.restartReason === undefined ? undefined : `Restart ${run.restarts}: ${run.restartReason}`,
  ].filter((note) => note !== undefined);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
${again}
<title>${escapeHtml(run.script)} · ${run.phase} · Shardwise</title>
<style>${pageStyle}${style}</style>
</head>
<body>
<main>
<header>
<h1>${escapeHtml(run.script)}<span class="chip ${run.phase}">${run.phase}</span></h1>
<p class="sub">${escapeHtml(`${ranks}${hosts} · ${formatDuration(run.writtenMs - run.startMs)} · ${run.transport ?? ''} · ${run.runDirectory}`)}</p>
${notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join('')}
</header>
<section class="tiles">${tiles(run)
    .map(
      ([value, label]) =>
        `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(label)}</span></div>`,
    )
    .join('')}</section>
<section class="cards">
${charts(view)}
<section class="card wide"><div class="head"><h2>Ranks, the worst first</h2><div class="legend">${parts
    .map(({ name, colour }) => `<span><i style="background:${colour}"></i>${name}</span>`)
    .join('')}</div></div><div class="plot">${ranksTable(run)}</div></section>
</section>
</main>
</body>
</html>
`;
}

function tiles(run: RunSnapshot): readonly (readonly [value: string, label: string])[] {
  const { step, totalSteps, loss, tokensPerSecond, samplesPerSecond, stepMs, leftMs } = run;
  const { memoryBytes, sentBytesPerSecond, receivedBytesPerSecond } = run;
  const tile = (
    value: number | undefined,
    format: (value: number) => string,
    label: string,
  ): readonly (readonly [string, string])[] =>
    value === undefined ? [] : [[format(value), label]];
  return [
    ...tile(
      step,
      (value) => (totalSteps === undefined ? `${value}` : `${value} / ${totalSteps}`),
      'steps',
    ),
    ...tile(leftMs, formatDuration, 'left'),
    ...tile(loss, formatLoss, 'loss'),
    ...tile(tokensPerSecond || undefined, formatCount, 'tokens/s'),
    ...tile(samplesPerSecond, formatCount, 'samples/s'),
    ...tile(stepMs, formatMilliseconds, 'per step'),
    ...tile(memoryBytes, formatBytes, 'memory'),
    ...tile(sentBytesPerSecond, (value) => `${formatBytes(value)}/s`, 'sent'),
    ...tile(receivedBytesPerSecond, (value) => `${formatBytes(value)}/s`, 'received'),
  ];
}

/** Charts of what has been seen since `shardwise top` was started. */
function charts({ history }: TopView): string {
  const seen = history.filter(({ step }) => step !== undefined);
  if (seen.length < 2) return '';
  const steps = seen.map(({ step = 0 }) => step);
  const series = (
    name: string,
    colour: string,
    value: (run: RunSnapshot) => number | undefined,
  ) => [{ name, colour, values: seen.map(value) }];
  const cards = [
    lineCard(
      'Loss',
      HALF,
      steps,
      series('loss', 'var(--blue)', ({ loss }) => loss),
      {
        format: formatLoss,
        fromZero: false,
      },
    ),
    lineCard(
      'Speed',
      HALF,
      steps,
      series('steps per second', 'var(--green)', ({ stepMs }) =>
        stepMs ? 1000 / stepMs : undefined,
      ),
      { format: (value) => value.toPrecision(3) },
    ),
  ];
  return cards.flatMap((card) => (card === undefined ? [] : [drawCard(card)])).join('\n');
}

/** What the time of a rank's step is spent on. */
const parts: readonly {
  readonly name: string;
  readonly colour: string;
  readonly ms: (rank: RankSnapshot) => number;
}[] = [
  { name: 'compute', colour: 'var(--blue)', ms: ({ computeMs = 0 }) => computeMs },
  {
    name: 'communication',
    colour: 'var(--orange)',
    ms: ({ communicationMs = 0, waitingMs = 0 }) => communicationMs - waitingMs,
  },
  { name: 'waiting for slower ranks', colour: 'var(--red)', ms: ({ waitingMs = 0 }) => waitingMs },
  { name: 'data', colour: 'var(--green)', ms: ({ dataMs = 0 }) => dataMs },
  { name: 'graph', colour: 'var(--violet)', ms: ({ graphMs = 0 }) => graphMs },
];

/** The columns that the bars show. */
const drawn = ['compute', 'comm', 'wait', 'data'];

function ranksTable(run: RunSnapshot): string {
  const ranks = worstFirst(run.ranks);
  const { titles, rows } = rankTable(run, ranks, drawn);
  const [name = '', ...others] = titles.map((title) => `<th scope="col">${escapeHtml(title)}</th>`);
  const body = rows.map((cells, row) => {
    const rank = ranks[row];
    if (rank === undefined) return '';
    const title = escapeHtml(stateText(rank, run) ?? 'running');
    const [name = '', ...others] = cells.map((cell) => `<td>${escapeHtml(cell)}</td>`);
    const drawing = `<td class="parts"><div>${bar(rank)}</div></td>`;
    return `<tr class="${rank.state}" title="${title}">${name}${drawing}${others.join('')}</tr>`;
  });
  return `<table class="ranks"><thead><tr>${name}<th scope="col">time of a step</th>${others.join('')}</tr></thead><tbody>${body.join('')}</tbody></table>`;
}

function bar(rank: RankSnapshot): string {
  const { stepMs } = rank;
  if (!stepMs) return '';
  return parts
    .map(({ name, colour, ms }) => {
      const share = Math.min(1, ms(rank) / stepMs);
      return `<i title="${name}: ${formatMilliseconds(ms(rank))}" style="width:${(100 * share).toFixed(1)}%;background:${colour}"></i>`;
    })
    .join('');
}
