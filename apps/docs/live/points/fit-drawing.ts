import { h, type VNode } from 'vue';
import { rankMark } from '../rank-mark.ts';
import { GRID, rowsOfRank, sineRows, spiralRows, type PointTask } from './point-task.ts';

const SIZE = 300;

/** Draws the rows of each rank in its colour and shape, and the model's values everywhere. */
export function fitDrawing(
  model: PointTask['model'],
  size: number,
  values: readonly number[],
): VNode {
  const place = (value: number): number => SIZE / 2 + (value / 1.1) * (SIZE / 2 - 6);
  const rows = model === 'sine' ? sineRows() : spiralRows();
  const points = Array.from({ length: size }, (_, rank) =>
    rowsOfRank(rows, rank, size).map((row) =>
      model === 'sine'
        ? rankMark(rank, place(rows.x[row] ?? 0), place(-(rows.y[row] ?? 0)), true)
        : rankMark(
            rank,
            place(rows.x[2 * row] ?? 0),
            place(rows.x[2 * row + 1] ?? 0),
            rows.y[row] === 1,
          ),
    ),
  ).flat();
  const cell = SIZE / GRID;
  const learned =
    model === 'sine'
      ? [
          h('polyline', {
            class: 'line',
            points: values
              .map((value, index) => `${place(index / 31.5 - 1)},${place(-value)}`)
              .join(' '),
          }),
        ]
      : values.map((value, index) =>
          h('rect', {
            x: (index % GRID) * cell,
            y: Math.floor(index / GRID) * cell,
            width: cell + 0.5,
            height: cell + 0.5,
            fill: value > 0.5 ? 'var(--backward)' : 'var(--forward)',
            opacity: 0.15 + 0.7 * Math.abs(value - 0.5),
          }),
        );
  return h(
    'svg',
    {
      class: 'plot square',
      viewBox: `0 0 ${SIZE} ${SIZE}`,
      role: 'img',
      'aria-label':
        model === 'sine'
          ? 'The points of each rank, and the curve that the model has learned'
          : 'The points of each rank, and which spiral the model takes each place for',
    },
    model === 'sine' ? [...points, ...learned] : [...learned, ...points],
  );
}
