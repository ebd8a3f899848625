import { chartFrame, type ChartSize, margin, pixel } from './chart-frame.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { formatTick, linearScale } from './scale.ts';

interface AreaLayer {
  readonly name: string;
  /** A CSS colour. */
  readonly colour: string;
  /** A value for each step. */
  readonly values: readonly number[];
}

export interface AreaChartOptions {
  readonly size: ChartSize;
  readonly label: string;
  readonly steps: readonly number[];
  /** The layers from the bottom up. */
  readonly layers: readonly AreaLayer[];
  readonly format: (value: number) => string;
  /** The unit of the value axis, such as `ms`. */
  readonly unit: string;
}

/**
 * Draws layers on top of each other over steps. Rare high steps, such as the first one, exceed the scale and are cut.
 */
export function areaChart({ size, label, steps, layers, format, unit }: AreaChartOptions): string {
  const totals = steps.map((_, index) => sumOf(layers, index));
  const ordered = totals.toSorted((a, b) => a - b);
  const usual = ordered[Math.floor(0.95 * (ordered.length - 1))] ?? 1;
  const top = Math.min(ordered.at(-1) ?? 1, 1.6 * usual) || 1;
  const bottom = size.height - margin.bottom;
  const x = linearScale(
    [steps[0] ?? 0, steps.at(-1) ?? 1],
    [margin.left, size.width - margin.right],
    Math.round(size.width / 110),
  );
  const y = linearScale([0, top * 1.05], [bottom, margin.top], Math.round(size.height / 55));
  const edge = (index: number, below: number): string =>
    `${pixel(x(steps[index] ?? 0))} ${pixel(Math.max(-size.height, y(sumOf(layers.slice(0, below), index))))}`;
  const indices = [...steps.keys()];
  const body = layers.map(({ colour }, layer) => {
    const up = indices.map((index) => edge(index, layer + 1));
    const down = indices.toReversed().map((index) => edge(index, layer));
    return `<path style="fill:${escapeHtml(colour)}" d="M${[...up, ...down].join('L')}Z"/>`;
  });
  const fromTop = layers.toReversed();
  const hover = {
    series: fromTop.map(({ name, colour }) => [name, colour] as const),
    points: steps.map((step, index) => ({
      x: Math.round(x(step)),
      heading: `step ${step}, ${format(totals[index] ?? 0)}`,
      values: fromTop.map(({ values }) => format(values[index] ?? 0)),
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
    body: body.join(''),
  });
}

function sumOf(layers: readonly AreaLayer[], index: number): number {
  return layers.reduce((sum, { values }) => sum + (values[index] ?? 0), 0);
}
