import { drawCard } from '../report/card.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { hoverScript } from '../report/hover-script.ts';
import { pageStyle } from '../report/page-style.ts';
import type { RankProfile } from '../run-state/rank-profile.ts';
import { formatMilliseconds } from '../text/format.ts';
import { adviceOn, notesOn, percent } from './advice.ts';
import { flameGraph, flameScript, partColours, phaseColours } from './flame-graph.ts';
import { headLine } from './profile-lines.ts';
import {
  amount,
  moduleTable,
  operationTable,
  type ProfileTable,
  waitTable,
} from './profile-tables.ts';
import { rooflineChart } from './roofline-chart.ts';
import { type ProfileSummary, stepParts, sumOf, summarizeProfile } from './summarize.ts';

const MAX_ROWS = 200;

/** Styles of this page beside those of the report. */
const style = `
.flame g{cursor:pointer}.chart .flame-name{pointer-events:none;fill:var(--text);font-size:11px}
.figures{font-size:13px}.figures td{width:auto;text-align:right;white-space:nowrap}.figures thead th{font-weight:600}
.figures td.name{text-align:left;white-space:normal;overflow-wrap:anywhere}
.remark{color:var(--orange);margin:6px 0 0}
.advice td{width:auto;vertical-align:top}.advice td:last-child{width:50%}.advice b{white-space:nowrap}
`;

/** Returns a page that shows the profiles of ranks, which needs no network and no other file. */
export function profilePage(profiles: readonly RankProfile[], script: string): string {
  const profile = summarizeProfile(profiles);
  const roofline = rooflineChart(profile);
  const phases = Object.entries(phaseColours).map(([name, colour]) => ({ name, colour }));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Profile of ${escapeHtml(script)} · Shardwise</title>
<style>${pageStyle}${style}</style>
</head>
<body>
<main>
<header><h1>${escapeHtml(script)}</h1><p class="sub">${escapeHtml(headLine(profile))}</p>${notesOn(
    profile,
  )
    .map((note) => `<p class="remark">${escapeHtml(note)}</p>`)
    .join('')}</header>
<section class="tiles">${tiles(profile)}</section>
<section class="cards">
<section class="card wide"><div class="head"><h2>What to do first</h2></div>${adviceTable(profile)}</section>
${drawCard({
  title: 'Where the time of a step goes: modules and operations (click to enlarge)',
  wide: true,
  legend: phases,
  chart: flameGraph(profile),
})}
${drawCard({
  title: 'Time of each rank',
  wide: roofline === undefined,
  legend: stepParts.map(([key, name]) => ({ name, colour: partColours[key] })),
  chart: rankBars(profile),
})}
${
  roofline === undefined
    ? ''
    : drawCard({
        title: 'Roofline of one core',
        wide: false,
        legend: [],
        chart: roofline,
        note: 'Bytes are the least that an operation must move. Operands in caches are read faster than from memory.',
      })
}
<section class="card wide"><div class="head"><h2>Operations of one step</h2></div><div class="plot">${table(operationTable(profile))}</div></section>
<section class="card wide"><div class="head"><h2>Modules of one step</h2></div><div class="plot">${table(moduleTable(profile))}</div></section>
${profile.waits.length === 0 ? '' : `<section class="card wide"><div class="head"><h2>What the ranks waited for in one step</h2></div><div class="plot">${table(waitTable(profile))}</div></section>`}
</section>
</main>
<div id="tip" role="tooltip"></div>
<script>${hoverScript}${flameScript}</script>
</body>
</html>
`;
}

function tiles({ stepMs, productsMs, mfu, rows, parts, ranks }: ProfileSummary): string {
  const all: readonly (readonly [string, string])[] = [
    [formatMilliseconds(stepMs), 'per step'],
    [percent(productsMs / stepMs), 'of it in matrix products'],
    ...(mfu === undefined ? [] : [[percent(mfu), 'MFU by the measured peak'] as const]),
    [`${amount(sumOf(rows, 'flops') / stepMs / 1e6)} GFLOP/s`, 'of each rank'],
    [parts.toFixed(0), 'kernels in a step'],
    [String(ranks.length), ranks.length === 1 ? 'rank' : 'ranks'],
  ];
  return all
    .map(
      ([value, label]) =>
        `<div class="tile"><b>${escapeHtml(value)}</b><span>${escapeHtml(label)}</span></div>`,
    )
    .join('');
}

function adviceTable(profile: ProfileSummary): string {
  const rows = adviceOn(profile).map(
    ({ limit, share, found, todo }) =>
      `<tr><td><b>${percent(share)}</b></td><td><b>${escapeHtml(limit)}</b></td><td>${escapeHtml(found)}</td><td>${escapeHtml(todo)}</td></tr>`,
  );
  return `<table class="advice">${rows.join('')}</table>`;
}

const [BAR_WIDTH, BAR_LEFT, BAR, BAR_GAP] = [520, 56, 20, 8] as const;

/** A bar for each rank, divided by what its steps were spent on. */
function rankBars({ ranks }: ProfileSummary): string {
  const longest = Math.max(...ranks.map(({ stepMs, steps }) => stepMs / steps));
  const bars = ranks.map((profile, index) => {
    const y = index * (BAR + BAR_GAP);
    let left = BAR_LEFT;
    const parts = stepParts.map(([key, name]) => {
      const ms = profile[key] / profile.steps;
      const width = (ms / longest) * (BAR_WIDTH - BAR_LEFT);
      const tip = `rank ${profile.rank}: ${name}\n${formatMilliseconds(ms)} a step, ${percent(profile[key] / profile.stepMs)}`;
      const box = `<rect class="box" style="fill:${partColours[key]}" x="${left.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" data-tip="${escapeHtml(tip)}"/>`;
      left += width;
      return box;
    });
    return `<text class="rank" x="0" y="${y + BAR / 2}" dy="0.32em">rank ${profile.rank}</text>${parts.join('')}`;
  });
  return `<svg class="chart" viewBox="0 0 ${BAR_WIDTH} ${ranks.length * (BAR + BAR_GAP)}" role="img" aria-label="Time of each rank">${bars.join('')}</svg>`;
}

function table({ titles, names, rows }: ProfileTable): string {
  const head = titles.map((title) => `<th>${escapeHtml(title)}</th>`).join('');
  const body = rows.slice(0, MAX_ROWS).map((row) => {
    const cells = row.map(
      (text, at) => `<td${at < names ? ' class="name"' : ''}>${escapeHtml(text)}</td>`,
    );
    return `<tr>${cells.join('')}</tr>`;
  });
  return `<table class="figures"><thead><tr>${head}</tr></thead><tbody>${body.join('')}</tbody></table>`;
}
