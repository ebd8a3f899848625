import {
  layoutText,
  memoryKinds,
  planText,
  type Prediction,
  stepTermNames,
  stepTerms,
  type TrainingPlan,
} from '@shardwise/planner';
import { pageStyle } from '../report/page-style.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { formatMilliseconds } from '../text/format.ts';

const style = `
main{display:grid;gap:12px}.plan{display:grid;gap:10px}.plan .row{display:grid;grid-template-columns:minmax(160px,1fr) 3fr 90px 130px;gap:10px;align-items:center;font-size:13px}
.plan .row[hidden]{display:none}.plan .bar{display:flex;height:18px;border-radius:4px;overflow:hidden}.plan .bar i{display:block}
.plan label{font-size:13px;display:grid;grid-template-columns:160px 240px 1fr;gap:10px;align-items:center}pre{overflow:auto;font-size:12px;margin:0}
@media (max-width:760px){.plan .row,.plan label{grid-template-columns:minmax(0,1fr)}}
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

/**
 * Hides layouts that need more memory than the first slider says, and writes how long the training of the second one takes, which
 * is the power of ten of its tokens or rows.
 */
const script = `
const [memory,length]=document.querySelectorAll('input[type=range]'),[bytes,units]=document.querySelectorAll('output');
const rows=[...document.querySelectorAll('.row')];
const three=value=>value.toLocaleString('en',{maximumSignificantDigits:3});
function update(){const most=Number(memory.value),total=10**Number(length.value);
bytes.textContent=(most/1e9).toFixed(1)+' GB: '+rows.filter(row=>row.dataset.seconds&&Number(row.dataset.bytes)<=most).length+' layouts';
units.textContent=three(total)+' '+length.name;
for(const row of rows){row.hidden=Number(row.dataset.bytes)>most;
const {seconds,joules,price}=row.dataset,steps=total/Number(length.dataset.step);if(!seconds)continue;
const days=seconds*steps/86400;
row.lastElementChild.textContent=(days<1?three(24*days)+' h':three(days)+' days')+(joules?', '+three(joules*steps/3.6e9)+' MWh':'')+(price?', price '+three(price*steps):'');}}
for(const slider of [memory,length])slider.addEventListener('input',update);update();
`;

/**
 * Returns a page with the layouts of a plan: bars of the terms of a step and of the memory of a rank, and sliders for the memory
 * that a rank may use and for the length of the training.
 */
export function planPage(plan: TrainingPlan): string {
  const { ranked, model } = plan;
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
<header><h1>Plan</h1><p class="sub">${escapeHtml(`${model.name} on ${plan.cluster.name}`)}</p></header>
${ranked.length > 0 ? sliders(plan) : ''}
${timeCard(ranked)}
${memoryCard(ranked)}
<section class="card wide"><pre>${escapeHtml(planText(plan))}</pre></section>
</main>
${ranked.length > 0 ? `<script>${script}</script>` : ''}
</body>
</html>
`;
}

function sliders({ ranked, memoryBytes, model, workload }: TrainingPlan): string {
  const least = Math.ceil(Math.min(...ranked.map(({ memory }) => memory.totalBytes)));
  const most = Math.ceil(memoryBytes);
  const isText = model.kind === 'transformer';
  const perStep = workload.batch * (isText ? workload.sequence : 1);
  return `<section class="card wide plan">
<label>memory of a rank <input type="range" min="${least}" max="${most}" value="${most}"> <output></output></label>
<label>training <input type="range" name="${isText ? 'tokens' : 'rows'}" data-step="${perStep}" min="6" max="14" step="0.05" value="${isText ? 11 : 8}"> <output></output></label>
</section>`;
}

function timeCard(ranked: readonly Prediction[]): string {
  const slowest = Math.max(...ranked.map(({ stepSeconds }) => stepSeconds));
  const rows = ranked.map((prediction) => {
    const { terms, stepSeconds, joules, price } = prediction;
    const parts = stepTerms.map((term) => ({
      name: stepTermNames[term],
      share: terms[term] / slowest,
      value: formatMilliseconds(1000 * terms[term]),
    }));
    const data = `data-seconds="${stepSeconds}" data-joules="${joules ?? ''}" data-price="${price ?? ''}"`;
    return rowOf(prediction, data, parts, formatMilliseconds(1000 * stepSeconds));
  });
  const used = stepTerms.filter((term) => ranked.some(({ terms }) => terms[term] > 0));
  const names = stepTerms.map((term) => (used.includes(term) ? stepTermNames[term] : null));
  return card('Time of a step', names, rows);
}

function memoryCard(ranked: readonly Prediction[]): string {
  const largest = Math.max(...ranked.map(({ memory }) => memory.totalBytes));
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(2)} GB`;
  const rows = ranked.map((prediction) => {
    const { kinds, totalBytes } = prediction.memory;
    const parts = memoryKinds.map((kind) => ({
      name: kind,
      share: kinds[kind] / largest,
      value: gigabytes(kinds[kind]),
    }));
    return rowOf(prediction, '', parts, gigabytes(totalBytes));
  });
  return card('Memory of a rank', memoryKinds, rows);
}

/** Of names that are null, nothing is shown. */
function card(title: string, names: readonly (string | null)[], rows: readonly string[]): string {
  if (rows.length === 0) return '';
  const legend = names.map((name, index) =>
    name === null ? '' : `<span><i style="background:${colours[index]}"></i>${name}</span>`,
  );
  return `<section class="card wide plan"><h2>${title}</h2>
<div class="legend">${legend.join('')}</div>
${rows.join('\n')}
</section>`;
}

interface BarPart {
  readonly name: string;
  /** Of the longest bar. */
  readonly share: number;
  readonly value: string;
}

function rowOf(
  { layout, memory }: Prediction,
  data: string,
  parts: readonly BarPart[],
  sum: string,
): string {
  const bar = parts.map(({ name, share, value }, index) => {
    const width = (100 * share).toFixed(2);
    return `<i style="width:${width}%;background:${colours[index]}" title="${name}: ${value}"></i>`;
  });
  return `<div class="row" data-bytes="${Math.ceil(memory.totalBytes)}" ${data}><span>${escapeHtml(layoutText(layout))}</span><span class="bar">${bar.join('')}</span><span>${sum}</span><span></span></div>`;
}
