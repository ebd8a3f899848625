import { escapeHtml } from '../text/escape-html.ts';
import { lineChart, type LineSeries } from './line-chart.ts';

/** A chart with its title. */
export interface Card {
  readonly title: string;
  readonly wide: boolean;
  readonly legend: readonly { readonly name: string; readonly colour: string }[];
  readonly chart: string;
  readonly note?: string;
}

export const WIDE = { width: 1080, height: 300 } as const;
export const HALF = { width: 520, height: 230 } as const;
export function drawCard({ title, wide, legend, chart, note }: Card): string {
  const items = legend.map(
    ({ name, colour }) => `<span><i style="background:${colour}"></i>${escapeHtml(name)}</span>`,
  );
  const noteText = note === undefined ? '' : `<p class="note">${escapeHtml(note)}</p>`;
  return `<section class="card${wide ? ' wide' : ''}"><div class="head"><h2>${escapeHtml(title)}</h2><div class="legend">${items.join('')}</div></div><div class="plot">${chart}</div>${noteText}</section>`;
}

/** Returns a card with a line for each series. Returns undefined if no series has a value. */
export function lineCard(
  title: string,
  size: typeof WIDE | typeof HALF,
  steps: readonly number[],
  series: readonly LineSeries[],
  {
    format,
    unit = '',
    fromZero = true,
  }: { format: (value: number) => string; unit?: string; fromZero?: boolean },
): Card | undefined {
  const present = series.filter(({ values }) => values.some((value) => value !== undefined));
  if (present.length === 0) return undefined;
  const chart = lineChart({ size, label: title, steps, series: present, format, unit, fromZero });
  return { title, wide: size === WIDE, legend: present, chart };
}
