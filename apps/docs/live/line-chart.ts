import { defineComponent, h, type PropType, type VNode } from 'vue';
import { axisEnd, horizontalAxis, tickText } from '../explorers/axis.ts';
import { numbersOf } from '../explorers/controls.ts';
import { useWidth } from '../explorers/use-width.ts';
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
  /**
   * The ends of the y axis, so that it does not move while values arrive. Values beyond them extend it. An axis that is
   * not logarithmic begins at 0. Default: 0.1 and 1.
   */
  readonly yRange?: readonly [low: number, high: number];
  readonly lines: readonly Line[];
  /** A height with which to compare the curves. */
  readonly mark?: { readonly name: string; readonly value: number };
  /** Whether the chart is a small picture: lower, and without its numbers. Default: false. */
  readonly isSmall?: boolean;
}

/** The heights of a chart in pixels, and the room for its axes. */
const [HEIGHT, TOP, LEFT, RIGHT, BELOW] = [300, 10, 48, 10, 28] as const;
/** The width that a chart has until the page has measured it. */
const ASSUMED_WIDTH = 480;

/** The height of a small chart. The style sheet has the same two heights, so that the page does not jump. */
const smallHeight = (width: number): number => (width < 200 ? 150 : 220);

/** Draws the loss after each step. */
export function lossChart(
  losses: readonly number[],
  chart: Pick<LineChart, 'most'> & Partial<Pick<LineChart, 'yRange'>>,
): VNode {
  const points = losses.map((loss, index) => [index + 1, loss] as const);
  return lineChart({
    title: 'Loss',
    xTitle: 'steps',
    isLogarithmic: true,
    lines: [{ name: 'loss', points }],
    ...chart,
  });
}

/** Draws curves as wide as there is room, and offers their numbers as a table and a file. */
export function lineChart(chart: LineChart): VNode {
  const { title, xTitle, lines, isSmall = false } = chart;
  return h('figure', [
    h('figcaption', title),
    h(Plot, { chart }),
    lines.length === 1 && lines[0]?.rank === undefined
      ? null
      : h(
          'p',
          { class: 'legend' },
          lines.map(({ name, rank }) =>
            rank === undefined ? h('span', name) : markedName(rank, name),
          ),
        ),
    isSmall
      ? null
      : numbersOf(
          title,
          [
            { title: 'curve' },
            { title: xTitle, isNumber: true },
            { title: 'value', isNumber: true },
          ],
          lines.flatMap(({ name, points }) => points.map(([at, value]) => [name, at, value])),
        ),
  ]);
}

const Plot = defineComponent({
  props: { chart: { type: Object as PropType<LineChart>, required: true } },
  setup(props) {
    const { element, width } = useWidth(ASSUMED_WIDTH);
    return (): VNode => {
      const { title, lines, mark, isSmall = false } = props.chart;
      const height = isSmall ? smallHeight(width.value) : HEIGHT;
      const values = lines.flatMap(({ points }) => points.map(([, y]) => y));
      const compared = mark === undefined ? values : [...values, mark.value];
      const last = lines.map(
        ({ name, points }) => `${name} ${points.at(-1)?.[1].toPrecision(3) ?? 'none'}`,
      );
      const isEmpty = compared.length === 0;
      const middle = { x: width.value / 2, y: height / 2, 'text-anchor': 'middle' };
      return h(
        'svg',
        {
          ref: element,
          class: 'plot',
          height,
          viewBox: `0 0 ${width.value} ${height}`,
          role: 'img',
          'aria-label': isEmpty
            ? `${title}: no values yet`
            : `${title}. The last values: ${last.join(', ')}`,
        },
        isEmpty
          ? [h('text', middle, 'no values yet')]
          : [...curves(props.chart, compared, width.value, height)],
      );
    };
  },
});

/** Draws axes, the mark and the curves. `compared` are all values whose heights the chart has to show. */
function curves(
  { xTitle, most, lines, mark, isLogarithmic, yRange = [0.1, 1] }: LineChart,
  compared: readonly number[],
  width: number,
  height: number,
): readonly (VNode | null)[] {
  const scale = scaleOf(compared, yRange, isLogarithmic);
  const [right, bottom] = [width - RIGHT, height - BELOW];
  const x = (value: number): number => LEFT + ((right - LEFT) * value) / Math.max(most, 1e-9);
  const y = (value: number): number => TOP + (bottom - TOP) * (1 - scale.share(value));
  return [
    ...scale.ticks.flatMap((tick) => [
      h('line', { x1: LEFT, x2: right, y1: y(tick), y2: y(tick), class: 'tick' }),
      h('text', { x: LEFT - 6, y: y(tick) + 4, 'text-anchor': 'end' }, tickText(tick)),
    ]),
    ...horizontalAxis({ left: LEFT, right, y: bottom, end: most, unit: xTitle }),
    ...(mark === undefined
      ? []
      : [
          h('line', { x1: LEFT, x2: right, y1: y(mark.value), y2: y(mark.value), class: 'mark' }),
          // If the line is at the top, the text is below it, where there is room.
          h(
            'text',
            {
              x: right,
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
          points: thinned(points, width)
            .map(([at, value]) => `${x(at)},${y(value)}`)
            .join(' '),
        }),
        rank === undefined || end === undefined ? null : rankMark(rank, x(end[0]), y(end[1])),
      ];
    }),
  ];
}

interface Scale {
  readonly ticks: readonly number[];
  /** Maps a value to its height, from 0 at the bottom to 1 at the top. */
  readonly share: (value: number) => number;
}

function scaleOf(
  values: readonly number[],
  [low, high]: readonly [number, number],
  isLogarithmic: boolean,
): Scale {
  if (!isLogarithmic) {
    const most = Math.max(...values);
    const top = most <= high ? high : axisEnd(most);
    return { ticks: [0, top / 4, top / 2, (3 * top) / 4, top], share: (value) => value / top };
  }
  const shown = values.filter((value) => value > 0);
  const bottom = Math.floor(Math.log10(Math.min(...shown, low)));
  const top = Math.ceil(Math.log10(Math.max(...shown, high)));
  return {
    ticks: Array.from({ length: top - bottom + 1 }, (_, index) => 10 ** (bottom + index)),
    share: (value) => (Math.log10(Math.max(value, 10 ** bottom)) - bottom) / (top - bottom),
  };
}

/** Thins points out. The drawing needs no more points than it has pixels. */
function thinned<P>(points: readonly P[], pixels: number): readonly P[] {
  const every = Math.ceil(points.length / pixels);
  return points.filter((_, index) => index % every === 0 || index === points.length - 1);
}
