import { checkOptions, option, type OptionRule, type OptionRules } from '@shardwise/core/extend';
import { drawCard } from '../report/card.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { hoverScript } from '../report/hover-script.ts';
import { pageStyle } from '../report/page-style.ts';
import { formatBytes, formatMilliseconds } from '../text/format.ts';
import { compareMemory, type MemoryComparison } from './compare-memory.ts';
import { blocksChart, categoryColours, memoryChart } from './memory-chart.ts';
import { memoryCategories, type MemoryProfile, memoryProfileSchema } from './memory-profile.ts';
import type { PlannedMemory } from './planned-memory.ts';

/** The rows of the table of the peak. Smaller blocks share a row for each category. */
const MAX_ROWS = 100;

/** Styles of this page beside those of the report. */
const style = `
.peak{font-size:13px}.peak td{width:auto}.peak thead th{font-weight:600}.peak caption{text-align:left;color:var(--soft);padding-bottom:6px}
.peak .amount{text-align:right;white-space:nowrap}.peak i{display:inline-block;width:9px;height:9px;border-radius:3px;margin-right:7px}
`;

const profile: OptionRule<MemoryProfile> = {
  fits: (value): value is MemoryProfile => memoryProfileSchema.safeParse(value).success,
  expected: 'a profile of memory, as the timeline returns it',
};
const rules: OptionRules<{ readonly profiles: readonly MemoryProfile[] }> = {
  profiles: option.required(option.listOf(profile)),
};

/**
 * Returns a page with the timelines of memory of one or more ranks, beside what was planned for a rank, if that is given. It
 * needs no network and no other file. Throws ConfigError for other values than profiles.
 */
export function memoryPage(
  given: MemoryProfile | readonly MemoryProfile[],
  planned?: PlannedMemory,
): string {
  const profiles = [given].flat();
  checkOptions('memoryPage', { profiles }, rules);
  const highest = Math.max(...profiles.map(({ peak }) => peak.bytes));
  const count = profiles.length === 1 ? '1 rank' : `${profiles.length} ranks`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Timeline of memory · Shardwise</title>
<style>${pageStyle}${style}</style>
</head>
<body>
<main>
<header><h1>Timeline of memory</h1><p class="sub">${escapeHtml(`${count} · at most ${formatBytes(highest)} on one rank`)}</p></header>
<section class="cards">
${profiles.map((each) => cards(each, planned)).join('\n')}
</section>
</main>
<div id="tip" role="tooltip"></div>
<script>${hoverScript}</script>
</body>
</html>
`;
}

function cards(profile: MemoryProfile, planned?: PlannedMemory): string {
  const { rank, peak } = profile;
  const legend = memoryCategories.map((name) => ({ name, colour: categoryColours[name] }));
  return [
    drawCard({
      title: `Rank ${rank}: bytes over time`,
      wide: true,
      legend,
      chart: memoryChart(profile),
      note: `The peak of ${peak.bytes.toLocaleString('en-US')} bytes came after ${formatMilliseconds(peak.ms)}. Within a compiled program, the lives of values are spread evenly over its time. Reserved memory was taken as one piece and nothing lay in it at the time.`,
    }),
    drawCard({
      title: `Rank ${rank}: when the largest blocks lay in memory`,
      wide: true,
      legend: [],
      chart: blocksChart(profile),
      note: 'Point at a bar for its operation, size and time. What lay there all the time is left out.',
    }),
    `<section class="card wide"><div class="head"><h2>Rank ${rank}: what lay in memory at the peak</h2></div><div class="plot">${peakTable(profile)}</div></section>`,
    ...(planned === undefined ? [] : [comparedCard(rank, compareMemory(planned, profile))]),
  ].join('\n');
}

/** The most differences that are shown. */
const MAX_DIFFERENCES = 20;

function comparedCard(rank: number, comparison: MemoryComparison): string {
  const { categories, differences, words } = comparison;
  const row = (
    cells: readonly string[],
    { plannedBytes, measuredBytes }: Pick<MemoryComparison, 'plannedBytes' | 'measuredBytes'>,
  ): string => {
    const amounts = [plannedBytes, measuredBytes, measuredBytes - plannedBytes];
    const texts = amounts.map(
      (bytes) => `<td class="amount">${bytes.toLocaleString('en-US')}</td>`,
    );
    return `<tr>${cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('')}${texts.join('')}</tr>`;
  };
  const rows = [
    row(['all', '', ''], comparison),
    ...categories.map((each) => row([each.category, '', ''], each)),
    ...differences
      .slice(0, MAX_DIFFERENCES)
      .map((each) => row([each.category, each.module, each.values], each)),
  ];
  const heads = ['For', 'Module', 'Values', 'Planned', 'Measured', 'Difference']
    .map((name, at) => `<th scope="col"${at > 2 ? ' class="amount"' : ''}>${name}</th>`)
    .join('');
  return `<section class="card wide"><div class="head"><h2>Rank ${rank}: the plan beside it</h2></div><div class="plot"><table class="peak"><caption>Bytes at the two peaks: of categories, and of what differs most</caption><thead><tr>${heads}</tr></thead><tbody>${rows.join('')}</tbody></table></div><p class="note">${escapeHtml(words)}</p></section>`;
}

/** The blocks at the peak. Their bytes add up to those of the peak. */
function peakTable({ peak }: MemoryProfile): string {
  const shown = peak.blocks.slice(0, MAX_ROWS);
  const rest = Map.groupBy(peak.blocks.slice(MAX_ROWS), ({ category }) => category);
  const smaller = Array.from(rest, ([category, blocks]) => ({
    bytes: blocks.reduce((sum, { bytes }) => sum + bytes, 0),
    category,
    module: '',
    operation: `${blocks.length} smaller blocks`,
  }));
  const rows = [...shown, ...smaller].map(({ bytes, category, module, operation }) => {
    const share = `${((100 * bytes) / peak.bytes).toFixed(1)} %`;
    return `<tr><td class="amount">${bytes.toLocaleString('en-US')}</td><td class="amount">${share}</td><td><i style="background:${categoryColours[category]}"></i>${category}</td><td><code>${escapeHtml(module)}</code></td><td>${escapeHtml(operation)}</td></tr>`;
  });
  const heads = ['Bytes', 'Share', 'For', 'Module', 'Made by']
    .map((name, at) => `<th scope="col"${at < 2 ? ' class="amount"' : ''}>${name}</th>`)
    .join('');
  return `<table class="peak"><caption>${peak.blocks.length} blocks, ${peak.bytes.toLocaleString('en-US')} bytes together</caption><thead><tr>${heads}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}
