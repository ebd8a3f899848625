import { chartFrame, type ChartSize, margin, pixel } from './chart-frame.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { extent, formatTick, linearScale, type Scale } from './scale.ts';

export interface LineSeries {
  readonly name: string;
  /** A CSS colour. */
  readonly colour: string;
  /** A value for each step. Undefined for a step without a value. */
  readonly values: readonly (number | undefined)[];
  readonly dots?: boolean;
  /** Draws a faint line of the values, and a smoothed line on top. */
  readonly smooth?: boolean;
}

export interface LineChartOptions {
  readonly size: ChartSize;
  readonly label: string;
  readonly steps: readonly number[];
  readonly series: readonly LineSeries[];
  readonly format: (value: number) => string;
  /** The unit of the value axis, such as `MiB`. */
  readonly unit: string;
  /** Whether the value axis starts at zero. */
  readonly fromZero: boolean;
}

/** Draws values over steps. */
export function lineChart(options: LineChartOptions): string {
  const { size, label, steps, series, format, unit, fromZero } = options;
  const all = series.flatMap(({ values }) => values.filter((value) => value !== undefined));
  const [low, high] = extent(all, 0.06);
  const x = linearScale(
    [steps[0] ?? 0, steps.at(-1) ?? 1],
    [margin.left + 4, size.width - margin.right - 4],
    Math.round(size.width / 110),
  );
  const y = linearScale(
    [fromZero ? 0 : low, high],
    [size.height - margin.bottom, margin.top],
    Math.round(size.height / 55),
  );
  const hover = {
    series: series.map(({ name, colour }) => [name, colour] as const),
    points: steps.map((step, index) => ({
      x: Math.round(x(step)),
      heading: `step ${step}`,
      values: series.map(({ values }) => {
        const value = values[index];
        return value === undefined ? null : format(value);
      }),
    })),
  };
  return chartFrame({
    size,
    label,
    x,
    y,
    formatX: String,
    formatY: (value) => formatTick(value, unit),
    xTitle: 'step',
    hover,
    body: series.map((one) => drawSeries(one, steps, x, y)).join(''),
  });
}

function drawSeries(
  { values, colour, dots = false, smooth = false }: LineSeries,
  steps: readonly number[],
  x: Scale,
  y: Scale,
): string {
  const points = values.flatMap((value, index) =>
    value === undefined || !Number.isFinite(value) ? [] : [{ step: steps[index] ?? 0, value }],
  );
  const css = escapeHtml(colour);
  const path = (picked: typeof points, extra: string): string =>
    `<path class="line" style="stroke:${css}"${extra} d="${picked
      .map(
        ({ step, value }, index) =>
          `${index === 0 ? 'M' : 'L'}${pixel(x(step))} ${pixel(y(value))}`,
      )
      .join('')}"/>`;
  const circles = points.map(
    ({ step, value }) =>
      `<circle r="3.2" style="fill:${css}" cx="${pixel(x(step))}" cy="${pixel(y(value))}"/>`,
  );
  if (dots || points.length === 1) return `${path(points, '')}${circles.join('')}`;
  if (!smooth || points.length < 30) return path(points, '');
  return path(points, ' opacity="0.28"') + path(smoothed(points), '');
}

/**
 * Returns means over about a thirtieth of the chart, half of it on either side, so that the line does not lag behind.
 */
function smoothed<Point extends { readonly value: number }>(points: readonly Point[]): Point[] {
  const half = Math.ceil(points.length / 60);
  return points.map((point, index) => {
    const reach = Math.min(half, index, points.length - 1 - index);
    const window = points.slice(index - reach, index + reach + 1);
    return { ...point, value: window.reduce((sum, { value }) => sum + value, 0) / window.length };
  });
}
