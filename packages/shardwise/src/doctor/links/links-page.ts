import { escapeHtml } from '../../text/escape-html.ts';
import { pageStyle } from '../../report/page-style.ts';
import type { Finding } from '../host/finding.ts';
import { linkFigures, type LinkFigure, matrixOf } from './link-lines.ts';
import type { LinkReport } from './link-report.ts';

const CELL = 44;
const LETTER = 8;
const MAX_LETTERS = 16;
/** More ranks than this are shown by host. */
const MAX_RANKS = 64;

/** Returns a page with a picture of all links, which needs no network and no other file. */
export function linksPage(report: LinkReport, findings: readonly Finding[]): string {
  const hosts = new Set(report.ranks.map(({ host }) => host)).size;
  const rows = findings.map(
    ({ name, found, todo }) =>
      `<tr><th scope="row">${escapeHtml(name)}</th><td>${escapeHtml(found)}${todo === undefined ? '' : `<br>→ ${escapeHtml(todo)}`}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Links between ranks · Shardwise</title>
<style>${pageStyle}</style>
</head>
<body>
<main>
<header><h1>Links between ranks</h1>
<p class="sub">${escapeHtml(`${report.ranks.length} ranks on ${hosts} ${hosts === 1 ? 'host' : 'hosts'} · ${report.transport}`)}</p></header>
<section class="cards">
${linkFigures.map((figure) => card(report, figure)).join('\n')}
<section class="card wide"><table>${rows.join('')}</table></section>
</section>
</main>
</body>
</html>
`;
}

function card(report: LinkReport, figure: LinkFigure): string {
  return `<section class="card"><div class="head"><h2>${escapeHtml(figure.title)}</h2></div><div class="plot">${picture(report, figure)}</div></section>`;
}

/** A square for each link. The better it is among all links, the stronger is its colour. */
function picture(report: LinkReport, figure: LinkFigure): string {
  const { names, rows } = matrixOf(report, figure, MAX_RANKS);
  const values = rows.flat().filter((value) => value !== undefined);
  const best = figure.worst === Math.min ? Math.max(...values) : Math.min(...values);
  const goodness = (value: number): number =>
    figure.worst === Math.min ? value / best : best / Math.max(value, best);
  // The names need as much room as the longest of them.
  const letters = Math.min(MAX_LETTERS, Math.max(...names.map((name) => name.length)));
  const room = 16 + LETTER * letters;
  const side = room + names.length * CELL;
  const label = (name: string): string =>
    escapeHtml(name.length > MAX_LETTERS ? `${name.slice(0, MAX_LETTERS - 1)}…` : name);
  const middle = (index: number): number => room + index * CELL + CELL / 2;
  const texts = names.flatMap((name, index) => [
    `<text x="${room - 8}" y="${middle(index) + 4}" text-anchor="end">${label(name)}</text>`,
    `<text transform="translate(${middle(index) + 4} ${room - 8}) rotate(-90)">${label(name)}</text>`,
  ]);
  const cells = rows.flatMap((row, y) =>
    row.flatMap((value, x) => {
      if (value === undefined) return [];
      const text = `${names[y] ?? ''} to ${names[x] ?? ''}: ${figure.format(value)}`;
      return [
        `<g><title>${escapeHtml(text)}</title><rect class="box" x="${room + x * CELL + 1}" y="${room + y * CELL + 1}" width="${CELL - 2}" height="${CELL - 2}" rx="4" fill="var(--blue)" fill-opacity="${(0.08 + 0.5 * goodness(value)).toFixed(2)}"/><text x="${middle(x)}" y="${middle(y) + 4}" text-anchor="middle" style="fill:var(--text)">${figure.format(value)}</text></g>`,
      ];
    }),
  );
  return `<svg class="chart" role="img" aria-label="${escapeHtml(figure.title)}" viewBox="0 0 ${side} ${side}" style="max-width:${side}px;min-width:0">${texts.join('')}${cells.join('')}</svg>`;
}
