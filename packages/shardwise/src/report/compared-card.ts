import { escapeHtml } from '../text/escape-html.ts';

/** Figures of a run beside those of its plan. */
export interface ComparedRun {
  /** Rows of cells, of which the first has the titles of the columns. Empty if nothing can be compared. */
  readonly rows: readonly (readonly string[])[];
  /** In words: where the run and its plan part, and the most probable cause. */
  readonly cause: string;
}

/** Returns the card of the report that shows how the run stands to its plan. */
export function comparedCard({ rows: [titles = [], ...rows], cause }: ComparedRun): string {
  const head = titles.map((title) => `<th scope="col">${escapeHtml(title)}</th>`).join('');
  const body = rows.map(([name = '', ...cells]) => {
    const figures = cells.map((cell) => `<td>${escapeHtml(cell)}</td>`).join('');
    return `<tr><th scope="row">${escapeHtml(name)}</th>${figures}</tr>`;
  });
  const table =
    rows.length === 0
      ? ''
      : `<table class="compared"><thead><tr>${head}</tr></thead><tbody>${body.join('')}</tbody></table>`;
  return `<section class="card wide"><div class="head"><h2>The plan of this run</h2></div>${table}<p class="note">${escapeHtml(cause)}</p></section>`;
}
