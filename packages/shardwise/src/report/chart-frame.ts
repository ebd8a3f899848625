import { escapeHtml } from '../text/escape-html.ts';
import type { Scale } from './scale.ts';

export interface ChartSize {
  readonly width: number;
  readonly height: number;
}

/** What the pointer shows: a heading and a value for each series at the nearest x. */
interface HoverData {
  readonly series: readonly (readonly [name: string, colour: string])[];
  readonly points: readonly {
    readonly x: number;
    readonly heading: string;
    readonly values: readonly (string | null)[];
  }[];
}

/** The room around the plot for the labels of its axes, in pixels. */
export const margin = { left: 58, right: 14, top: 10, bottom: 34 } as const;

export interface FrameOptions {
  readonly size: ChartSize;
  readonly label: string;
  readonly x: Scale;
  readonly y: Scale;
  readonly formatX: (value: number) => string;
  readonly formatY: (value: number) => string;
  readonly xTitle: string;
  readonly hover: HoverData;
  /** The SVG of the data, in pixels. It is cut at the border of the plot. */
  readonly body: string;
}

/** Draws axes, grid and hover data around a plot. */
export function chartFrame(options: FrameOptions): string {
  const { size, label, x, y, formatX, formatY, xTitle, hover, body } = options;
  const { width, height } = size;
  const right = width - margin.right;
  const bottom = height - margin.bottom;
  const clip = `clip-${hexOf(`${label} ${width}`)}`;
  const grid = y.ticks.map((tick) => {
    const at = pixel(y(tick));
    return `<line class="grid" x1="${margin.left}" x2="${right}" y1="${at}" y2="${at}"/><text class="tick" x="${margin.left - 8}" y="${at}" dy="0.32em" text-anchor="end">${escapeHtml(formatY(tick))}</text>`;
  });
  const ticks = x.ticks.map((tick) => {
    const at = pixel(x(tick));
    return `<line class="axis" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 4}"/><text class="tick" x="${at}" y="${bottom + 16}" text-anchor="middle">${escapeHtml(formatX(tick))}</text>`;
  });
  return `<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(label)}" data-hover='${hoverJson(hover)}'>
<clipPath id="${clip}"><rect x="${margin.left}" y="${margin.top - 4}" width="${right - margin.left}" height="${bottom - margin.top + 4}"/></clipPath>
${grid.join('')}${ticks.join('')}
<line class="axis" x1="${margin.left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>
<text class="title" x="${right}" y="${height - 3}" text-anchor="end">${escapeHtml(xTitle)}</text>
<g clip-path="url(#${clip})">${body}</g>
<line class="cursor" y1="${margin.top}" y2="${bottom}"/>
</svg>`;
}

/** Returns JSON for an attribute in single quotes. This way the many double quotes of JSON need no escapes. */
function hoverJson({ series, points }: HoverData): string {
  const rows = points.map(({ x, heading, values }) => [x, heading, values]);
  return JSON.stringify({ series, rows }).replaceAll(/[&<']/g, escapeHtml);
}

/** Writes a coordinate with one decimal, which is finer than a screen shows. */
export function pixel(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/** Returns the bytes of a text in hexadecimal digits, which are allowed in the ids of elements. */
function hexOf(text: string): string {
  const digits = (byte: number): string => byte.toString(16).padStart(2, '0');
  return Array.from(new TextEncoder().encode(text), digits).join('');
}
