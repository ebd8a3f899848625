import { h, type VNode } from 'vue';
import type { LayerPart } from './layer-task.ts';

const CELL = 15;

/** Draws a matrix as one rank has it: squares for its own elements, and dots for those of other ranks. */
export function partDrawing({ name, shape, layout, values, rows, columns }: LayerPart): VNode {
  const [height, width] = shape;
  const most = Math.max(...values.map(Math.abs), 1e-12);
  const own = columns[1] - columns[0];
  const cells = Array.from({ length: height * width }, (_, index) => {
    const [row, column] = [Math.floor(index / width), index % width];
    const [x, y] = [(column + 0.5) * CELL, (row + 0.5) * CELL];
    const isHere = row >= rows[0] && row < rows[1] && column >= columns[0] && column < columns[1];
    const value = values[(row - rows[0]) * own + column - columns[0]];
    if (!isHere || value === undefined) return h('circle', { cx: x, cy: y, r: 1, class: 'absent' });
    const side = 2 + (CELL - 4) * Math.sqrt(Math.abs(value) / most);
    return h('rect', {
      x: x - side / 2,
      y: y - side / 2,
      width: side,
      height: side,
      class: value < 0 ? 'below' : 'above',
    });
  });
  return h('figure', { class: 'part' }, [
    h('figcaption', name),
    h(
      'svg',
      {
        width: width * CELL,
        height: height * CELL,
        viewBox: `0 0 ${width * CELL} ${height * CELL}`,
        role: 'img',
        'aria-label': `${name} of shape [${shape.join(', ')}] has the layout ${layout}; the numbers below say it`,
      },
      cells,
    ),
    h('span', { class: 'setting' }, layout),
  ]);
}
