import { h, type VNode } from 'vue';
import { crosses, type RecordedMessage } from './record-collective.ts';

const SIZE = 340;
const CENTRE = SIZE / 2;
const RADIUS = 124;

/**
 * Draws ranks on a circle, with the ranks of a host side by side, and messages between them. Messages that leave a host
 * are dashed.
 */
export function ringOfRanks(hosts: readonly number[], messages: readonly RecordedMessage[]): VNode {
  const ranks = hosts.length;
  const count = Math.max(...hosts) + 1;
  const placeOf = (turn: number, radius: number): readonly [number, number] => {
    const angle = (2 * Math.PI * turn) / ranks - Math.PI / 2;
    return [CENTRE + radius * Math.cos(angle), CENTRE + radius * Math.sin(angle)];
  };
  const node = ranks > 10 ? 15 : 20;
  return h(
    'svg',
    {
      class: 'circle',
      viewBox: `0 0 ${SIZE} ${SIZE}`,
      role: 'img',
      'aria-label': `${messages.length} messages between ${ranks} ranks; the table lists them`,
    },
    [
      h(
        'defs',
        h(
          'marker',
          {
            id: 'arrow',
            viewBox: '0 0 8 8',
            refX: 7,
            refY: 4,
            markerWidth: 7,
            markerHeight: 7,
            orient: 'auto',
          },
          h('path', { d: 'M0 0 8 4 0 8z', fill: 'var(--vp-c-brand-1)' }),
        ),
      ),
      ...messages.map((message) => {
        const [[x1, y1], [x2, y2]] = [placeOf(message.from, RADIUS), placeOf(message.to, RADIUS)];
        const length = Math.hypot(x2 - x1, y2 - y1);
        const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
        // The line is bent to one side, so that messages in both directions are visible.
        const [mx, my] = [(x1 + x2) / 2 - 18 * dy, (y1 + y2) / 2 + 18 * dx];
        const [leaves, enters] = [node + 2, node + 4];
        return h('path', {
          d: `M${x1 + leaves * dx} ${y1 + leaves * dy} Q${mx} ${my} ${x2 - enters * dx} ${y2 - enters * dy}`,
          class: crosses(message, hosts) ? 'message between' : 'message',
          'marker-end': 'url(#arrow)',
        });
      }),
      ...(count === 1
        ? []
        : Array.from({ length: count }, (_, host) => {
            const first = hosts.indexOf(host);
            const last = hosts.lastIndexOf(host);
            const radius = RADIUS + node + 8;
            const [[x1, y1], [x2, y2]] = [
              placeOf(first - 0.35, radius),
              placeOf(last + 0.35, radius),
            ];
            const isLarge = 2 * (last - first + 0.7) > ranks ? 1 : 0;
            return h('path', {
              d: `M${x1} ${y1}A${radius} ${radius} 0 ${isLarge} 1 ${x2} ${y2}`,
              class: 'host',
            });
          })),
      ...hosts.map((_, rank) => {
        const [x, y] = placeOf(rank, RADIUS);
        return h('g', [
          h('circle', { cx: x, cy: y, r: node, class: 'rank' }),
          h('text', { x, y: y + 5, 'text-anchor': 'middle', class: 'rank-name' }, String(rank)),
        ]);
      }),
    ],
  );
}
