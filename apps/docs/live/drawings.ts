import { h, type VNode } from 'vue';
import { GRID, rowsOfRank, sineRows, spiralRows, type LiveTask } from './live-task.ts';

const SIZE = 300;

/** The loss of each step, on a logarithmic scale. */
export function lossChart(losses: readonly number[], steps: number): VNode {
  const shown = losses.filter((loss) => loss > 0);
  const [low, high] = [Math.min(...shown, 1e-3), Math.max(...shown, 1)];
  const [bottom, top] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const x = (step: number): number => 44 + ((SIZE - 52) * step) / Math.max(1, steps);
  const y = (loss: number): number =>
    10 + ((SIZE - 40) * (top - Math.log10(Math.max(loss, 10 ** bottom)))) / (top - bottom);
  const ticks = Array.from({ length: top - bottom + 1 }, (_, index) => bottom + index);
  return h(
    'svg',
    {
      class: 'plot',
      viewBox: `0 0 ${SIZE} ${SIZE}`,
      role: 'img',
      'aria-label': `Loss by step: ${losses.length} steps, the last ${losses.at(-1)?.toPrecision(3) ?? 'none'}`,
    },
    [
      ...ticks.flatMap((power) => [
        h('line', { x1: 44, x2: SIZE - 8, y1: y(10 ** power), y2: y(10 ** power), class: 'tick' }),
        h(
          'text',
          { x: 38, y: y(10 ** power) + 4, 'text-anchor': 'end' },
          power < -3 ? `1e${power}` : String(10 ** power),
        ),
      ]),
      h('polyline', {
        class: 'line',
        points: losses.map((loss, index) => `${x(index + 1)},${y(loss)}`).join(' '),
      }),
      h('text', { x: 44, y: SIZE - 8 }, 'step 0'),
      h('text', { x: SIZE - 8, y: SIZE - 8, 'text-anchor': 'end' }, String(steps)),
    ],
  );
}

/** The rows of each rank in its colour and shape, and what the model says everywhere. */
export function fitDrawing(
  model: LiveTask['model'],
  size: number,
  values: readonly number[],
): VNode {
  const place = (value: number): number => SIZE / 2 + (value / 1.1) * (SIZE / 2 - 6);
  const rows = model === 'sine' ? sineRows() : spiralRows();
  const points = Array.from({ length: size }, (_, rank) =>
    rowsOfRank(rows, rank, size).map((row) =>
      model === 'sine'
        ? mark(rank, place(rows.x[row] ?? 0), place(-(rows.y[row] ?? 0)), true)
        : mark(
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
      class: 'plot',
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

/** Circles, squares, triangles, diamonds: ranks differ by more than their colour. Filled or not is the class. */
export function mark(rank: number, x: number, y: number, isFilled: boolean): VNode {
  const color = `var(--rank-${rank % 8})`;
  const style = { stroke: color, fill: isFilled ? color : 'var(--vp-c-bg)', 'stroke-width': 1.5 };
  const r = 3.2;
  switch (rank % 4) {
    case 1:
      return h('rect', { ...style, x: x - r, y: y - r, width: 2 * r, height: 2 * r });
    case 2:
      return h('path', { ...style, d: `M${x} ${y - r * 1.2}l${r * 1.2} ${r * 2.1}h${-2.4 * r}z` });
    case 3:
      return h('path', {
        ...style,
        d: `M${x} ${y - r * 1.3}l${r * 1.3} ${r * 1.3}-${r * 1.3} ${r * 1.3}-${r * 1.3}-${r * 1.3}z`,
      });
    default:
      return h('circle', { ...style, cx: x, cy: y, r });
  }
}
