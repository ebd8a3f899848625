import { formatAction, type ScheduledAction, type TimedAction } from '@shardwise/strategies';
import { defineComponent, h, type PropType, type VNode } from 'vue';
import { horizontalAxis, nearEnd } from './axis.ts';
import { millisecondsText } from './quantities.ts';
import { useWidth } from './use-width.ts';

const fills: Readonly<Record<string, string>> = {
  forward: 'var(--forward)',
  backward: 'var(--backward)',
  inputGradient: 'var(--input-gradient)',
  weightGradient: 'var(--weight-gradient)',
};

const legend = [
  ['F', 'forward', 'forward'],
  ['B', 'backward', 'backward'],
  ['I', 'input gradient', 'inputGradient'],
  ['W', 'weight gradient', 'weightGradient'],
] as const;

const [LEFT, RIGHT, ROW, AXIS] = [56, 10, 34, 28] as const;
/** The average width of an action in pixels. */
const ACTION = 22;
/** The width that a drawing has until the page has measured it, and the greatest one. */
const [ASSUMED_WIDTH, MOST_WIDTH] = [640, 2400] as const;

export interface DrawnSchedule {
  readonly title: string;
  readonly description: string;
  /** The actions of each rank. Times are in milliseconds from 0. */
  readonly ranks: readonly (readonly TimedAction[])[];
  readonly endMs: number;
  /** A time that a line marks. */
  readonly markMs?: number;
}

/** Draws a schedule with a row for each rank, a cell for each action, and an axis of time. */
export function scheduleDrawing(schedule: DrawnSchedule): VNode {
  return h(ScheduleDrawing, { schedule });
}

const ScheduleDrawing = defineComponent({
  props: { schedule: { type: Object as PropType<DrawnSchedule>, required: true } },
  setup(props) {
    const { element, width: room } = useWidth(ASSUMED_WIDTH);
    return (): VNode => {
      const { title, description, ranks, endMs, markMs } = props.schedule;
      const most = Math.max(0, ...ranks.map((actions) => actions.length));
      // A drawing that needs more room than there is scrolls.
      const needed = Math.min(MOST_WIDTH, (most * ranks.length * ACTION) / 2);
      const width = Math.max(room.value, needed);
      const right = width - RIGHT;
      const end = nearEnd(Math.max(endMs, 1e-3));
      const x = (milliseconds: number): number => LEFT + (milliseconds / end) * (right - LEFT);
      const rows = ranks.length * ROW;
      const height = rows + AXIS;
      return h(
        'div',
        { ref: element, class: 'scroller', tabindex: 0, role: 'region', 'aria-label': title },
        [
          h(
            'svg',
            {
              width,
              height,
              viewBox: `0 0 ${width} ${height}`,
              role: 'img',
              'aria-label': description,
            },
            [
              ...ranks.flatMap((actions, rank) => [
                h('text', { x: 0, y: rank * ROW + 22, class: 'rank-name' }, `rank ${rank}`),
                h('rect', {
                  x: LEFT,
                  y: rank * ROW + 4,
                  width: right - LEFT,
                  height: ROW - 8,
                  class: 'track',
                }),
                ...actions.flatMap((action) => actionCell(action, rank * ROW, x)),
              ]),
              ...horizontalAxis({ left: LEFT, right, y: rows, end, unit: 'ms' }),
              markMs === undefined
                ? null
                : h('line', { x1: x(markMs), x2: x(markMs), y1: 0, y2: rows, class: 'moment' }),
            ],
          ),
        ],
      );
    };
  },
});

function actionCell(
  { action, startMs, endMs }: TimedAction,
  top: number,
  x: (milliseconds: number) => number,
): readonly (VNode | null)[] {
  const wide = x(endMs) - x(startMs);
  const label = shortLabel(action);
  return [
    h(
      'rect',
      {
        x: x(startMs),
        y: top + 4,
        width: Math.max(0.5, wide - 1),
        height: ROW - 8,
        rx: 2,
        fill: fillOf(action),
      },
      [
        h(
          'title',
          `${formatAction(action)}: ${millisecondsText(startMs)} to ${millisecondsText(endMs)}`,
        ),
      ],
    ),
    wide > 8 * label.length
      ? h(
          'text',
          { x: x(startMs) + wide / 2, y: top + 21, class: 'cell', 'text-anchor': 'middle' },
          label,
        )
      : null,
  ];
}

/** Explains the letters and colours of cells. */
export function actionLegend(): VNode {
  return h(
    'p',
    { class: 'legend' },
    legend.map(([letter, meaning, kind]) =>
      h('span', [h('i', { style: { background: fills[kind] } }, letter), meaning]),
    ),
  );
}

/** Returns the colour of an action. */
export function fillOf(action: ScheduledAction): string {
  return fills[action.kind === 'overlap' ? 'backward' : action.kind] ?? 'var(--forward)';
}

function shortLabel(action: ScheduledAction): string {
  if (action.kind === 'overlap') return '∥';
  return formatAction(action).replace(/^\d+/, '');
}
