import type { TrainingPlan } from '@shardwise/planner';
import { layoutText, planText, stepTerms } from '@shardwise/planner';
import { escapeHtml } from '../text/escape-html.ts';
import { pageStyle } from '../report/page-style.ts';

const style = `
.plan{display:grid;gap:10px}.plan .row{display:grid;grid-template-columns:minmax(160px,1fr) 3fr 90px;gap:10px;align-items:center;font-size:13px}
.plan .bar{display:flex;height:18px;border-radius:4px;overflow:hidden}.plan .bar i{display:block}
.plan label{font-size:13px}.plan input{width:240px;vertical-align:middle}pre{overflow:auto;font-size:12px}
.keys{display:flex;flex-wrap:wrap;gap:12px;font-size:12px}.keys i{display:inline-block;width:9px;height:9px;border-radius:3px;margin-right:6px}
`;

const colours = [
  '#3b6fd4',
  '#7a9ae0',
  '#c9ced8',
  '#d9822b',
  '#e0b04c',
  '#a06cd5',
  '#4aa3a2',
  '#c4504f',
  '#5a9e4b',
  '#8a6d5a',
];

/** Shows or hides layouts by the memory that a rank may use. */
const script = `
const slider=document.querySelector('input[type=range]'),out=document.querySelector('output');
const rows=[...document.querySelectorAll('.row[data-bytes]')];
function update(){const most=Number(slider.value);out.textContent=(most/1e9).toFixed(1)+' GB';
for(const row of rows)row.hidden=Number(row.dataset.bytes)>most;}
slider.addEventListener('input',update);update();
`;

/** Returns a page with the layouts of a plan: bars of the terms of a step, and a slider for the memory of a rank. */
export function planPage(plan: TrainingPlan): string {
  const slowest = Math.max(...plan.ranked.map(({ stepSeconds }) => stepSeconds), 1e-12);
  const bytes = plan.ranked.map(({ memory }) => memory.totalBytes);
  const [least, most] = [Math.min(...bytes, plan.memoryBytes), plan.memoryBytes];
  const keys = stepTerms
    .map((term, index) => `<span><i style="background:${colours[index]}"></i>${term}</span>`)
    .join('');
  const rows = plan.ranked
    .map(({ layout, terms, stepSeconds, memory }) => {
      const bars = stepTerms
        .map((term, index) => {
          const width = ((100 * terms[term]) / slowest).toFixed(2);
          const title = `${term}: ${(1000 * terms[term]).toFixed(1)} ms`;
          return `<i style="width:${width}%;background:${colours[index]}" title="${title}"></i>`;
        })
        .join('');
      return `<div class="row" data-bytes="${Math.ceil(memory.totalBytes)}"><span>${escapeHtml(layoutText(layout))}</span><span class="bar">${bars}</span><span>${stepSeconds.toPrecision(3)} s</span></div>`;
    })
    .join('\n');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Plan · Shardwise</title>
<style>${pageStyle}${style}</style>
</head>
<body>
<main>
<header><h1>Plan</h1><p class="sub">${escapeHtml(`${plan.model.name} on ${plan.cluster.name}`)}</p></header>
<section class="card wide plan">
<label>memory of a rank <input type="range" min="${Math.ceil(least)}" max="${Math.ceil(most)}" value="${Math.ceil(most)}"> <output></output></label>
<div class="keys">${keys}</div>
${rows}
</section>
<section class="card wide"><pre>${escapeHtml(planText(plan))}</pre></section>
</main>
<script>${script}</script>
</body>
</html>
`;
}
