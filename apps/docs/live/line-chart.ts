import { h, type VNode } from 'vue';
import { numbersOf } from '../explorers/controls.ts';
import { markedName, rankMark } from './rank-mark.ts';

/** A curve. */
export interface Line {
  readonly name: string;
  /** The rank or the run whose colour and mark the curve has. Undefined for a curve with its own style. */
  readonly rank?: number;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Whether the curve is broad, so that another curve on it does not hide it. */
  readonly isBroad?: boolean;
}

export interface LineChart {
  readonly title: string;
  readonly xTitle: string;
  /** The end of the x axis, which begins at 0. */
  readonly most: number;
  /** Whether the y axis is logarithmic. */
  readonly isLogarithmic: boolean;
  readonly lines: readonly Line[];
  /** A height with which to compare the curves. */
  readonly mark?: { readonly name: string; readonly value: number };
}

const SIZE = 300;
const LEFT = 44;

/** Draws the loss after each step. */
export function lossChart(
  losses: readonly number[],
  chart: Pick<LineChart, 'most' | 'mark'> & Partial<Pick<LineChart, 'title' | 'isLogarithmic'>>,
): VNode {
  const points = losses.map((loss, index) => [index + 1, loss] as const);
  return lineChart({
    title: 'Loss',
    xTitle: 'step',
    isLogarithmic: true,
    lines: [{ name: 'loss', points }],
    ...chart,
  });
}

/** Draws curves, and offers their numbers as a table and a file. */
export function lineChart(chart: LineChart): VNode {
  const { title, xTitle, most, lines, mark } = chart;
  const values = lines.flatMap(({ points }) => points.map(([, y]) => y));
  const compared = mark === undefined ? values : [...values, mark.value];
  const isEmpty = compared.length === 0;
  const scale = scaleOf(compared, chart.isLogarithmic);
  const x = (value: number): number => LEFT + ((SIZE - LEFT - 8) * value) / Math.max(most, 1e-9);
  const y = (value: number): number => 10 + (SIZE - 40) * (1 - scale.share(value));
  const last = lines.map(
    ({ name, points }) => `${name} ${points.at(-1)?.[1].toPrecision(3) ?? 'none'}`,
  );
  return h('figure', [
    h('figcaption', title),
    h(
      'svg',
      {
        class: 'plot',
        viewBox: `0 0 ${SIZE} ${SIZE}`,
        role: 'img',
        'aria-label': isEmpty
          ? `${title}: no values yet`
          : `${title}. The last values: ${last.join(', ')}`,
      },
      [
        ...(isEmpty ? [] : scale.ticks).flatMap((tick) => [
          h('line', { x1: LEFT, x2: SIZE - 8, y1: y(tick), y2: y(tick), class: 'tick' }),
          h('text', { x: 38, y: y(tick) + 4, 'text-anchor': 'end' }, tickText(tick)),
        ]),
        ...(mark === undefined
          ? []
          : [
              h('line', {
                x1: LEFT,
                x2: SIZE - 8,
                y1: y(mark.value),
                y2: y(mark.value),
                class: 'mark',
              }),
              h(
                'text',
                {
                  x: SIZE - 8,
                  // If the line is at the top, the text is below it, where there is room.
                  y: y(mark.value) + (y(mark.value) < 20 ? 14 : -4),
                  'text-anchor': 'end',
                },
                mark.name,
              ),
            ]),
        ...lines.flatMap(({ points, rank, isBroad = false }) => {
          const end = points.at(-1);
          return [
            h('polyline', {
              class: { line: true, broad: isBroad },
              style: rank === undefined ? {} : { stroke: `var(--rank-${rank % 8})` },
              points: thinned(points)
                .map(([at, value]) => `${x(at)},${y(value)}`)
                .join(' '),
            }),
            rank === undefined || end === undefined ? null : rankMark(rank, x(end[0]), y(end[1])),
          ];
        }),
        ...(isEmpty
          ? [h('text', { x: SIZE / 2, y: SIZE / 2, 'text-anchor': 'middle' }, 'no values yet')]
          : [
              h('text', { x: LEFT, y: SIZE - 8 }, `${xTitle} 0`),
              h('text', { x: SIZE - 8, y: SIZE - 8, 'text-anchor': 'end' }, tickText(most)),
            ]),
      ],
    ),
    lines.length > 1
      ? h(
          'p',
          { class: 'legend' },
          lines.map(({ name, rank }) =>
            rank === undefined ? h('span', name) : markedName(rank, name),
          ),
        )
      : null,
    numbersOf(
      title,
      [{ title: 'curve' }, { title: xTitle, isNumber: true }, { title: 'value', isNumber: true }],
      lines.flatMap(({ name, points }) => points.map(([at, value]) => [name, at, value])),
    ),
  ]);
}

interface Scale {
  readonly ticks: readonly number[];
  /** Maps a value to its height, from 0 at the bottom to 1 at the top. */
  readonly share: (value: number) => number;
}

function scaleOf(values: readonly number[], isLogarithmic: boolean): Scale {
  if (!isLogarithmic) {
    const top = niceTop(Math.max(...values, 1e-9));
    return { ticks: [0, top / 4, top / 2, (3 * top) / 4, top], share: (value) => value / top };
  }
  const shown = values.filter((value) => value > 0);
  const bottom = Math.floor(Math.log10(Math.min(...shown, 0.1)));
  const top = Math.ceil(Math.log10(Math.max(...shown, 1)));
  return {
    ticks: Array.from({ length: top - bottom + 1 }, (_, index) => 10 ** (bottom + index)),
    share: (value) => (Math.log10(Math.max(value, 10 ** bottom)) - bottom) / (top - bottom),
  };
}

/** Returns the next value of 1, 2, 4 or 8 times a power of ten. */
function niceTop(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 4, 8].find((each) => each * power >= value) ?? 10);
}

function tickText(value: number): string {
  return value !== 0 && value < 1e-3
    ? value.toExponential(0)
    : String(Number(value.toPrecision(3)));
}

/** Thins points out. The drawing needs no more points than it has pixels. */
function thinned<P>(points: readonly P[]): readonly P[] {
  const every = Math.ceil(points.length / SIZE);
  return points.filter((_, index) => index % every === 0 || index === points.length - 1);
}
