import { formatAction, type ScheduledAction, type TimedAction } from '@shardwise/strategies';
import { h, type VNode } from 'vue';
import { millisecondsText } from './quantities.ts';

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

const ROW = 34;
const LEFT = 56;
/** The average width of an action in pixels. */
const ACTION = 22;

export interface DrawnSchedule {
  readonly title: string;
  readonly description: string;
  /** The actions of each rank. Times are in milliseconds from 0. */
  readonly ranks: readonly (readonly TimedAction[])[];
  readonly endMs: number;
  /** A time that a line marks. */
  readonly markMs?: number;
}

/** Draws a schedule with a row for each rank and a cell for each action. */
export function scheduleDrawing({
  title,
  description,
  ranks,
  endMs,
  markMs,
}: DrawnSchedule): VNode {
  const most = Math.max(0, ...ranks.map((actions) => actions.length));
  const width = Math.max(640, Math.min(2400, (most * ranks.length * ACTION) / 2));
  const x = (milliseconds: number): number =>
    LEFT + (milliseconds / Math.max(endMs, 1e-3)) * (width - LEFT - 4);
  const height = ranks.length * ROW + 8;
  return h('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': title }, [
    h(
      'svg',
      { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': description },
      [
        ...ranks.flatMap((actions, rank) => [
          h('text', { x: 0, y: rank * ROW + 22, class: 'rank-name' }, `rank ${rank}`),
          h('rect', {
            x: LEFT,
            y: rank * ROW + 4,
            width: width - LEFT - 4,
            height: ROW - 8,
            class: 'track',
          }),
          ...actions.flatMap(({ action, startMs, endMs: actionEndMs }) => {
            const wide = x(actionEndMs) - x(startMs);
            const label = formatAction(action);
            return [
              h(
                'rect',
                {
                  x: x(startMs),
                  y: rank * ROW + 4,
                  width: Math.max(0.5, wide - 1),
                  height: ROW - 8,
                  rx: 2,
                  fill: fillOf(action),
                },
                [
                  h(
                    'title',
                    `${label}: ${millisecondsText(startMs)} to ${millisecondsText(actionEndMs)}`,
                  ),
                ],
              ),
              wide > 8 * shortLabel(action).length
                ? h(
                    'text',
                    {
                      x: x(startMs) + wide / 2,
                      y: rank * ROW + 21,
                      class: 'cell',
                      'text-anchor': 'middle',
                    },
                    shortLabel(action),
                  )
                : null,
            ];
          }),
        ]),
        markMs === undefined
          ? null
          : h('line', { x1: x(markMs), x2: x(markMs), y1: 0, y2: height, class: 'moment' }),
      ],
    ),
  ]);
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
