import { h, type VNode } from 'vue';

/**
 * Draws the mark of a rank: a circle, square, triangle or diamond. So ranks differ by more than their colour. Filling
 * shows the class.
 */
export function rankMark(rank: number, x: number, y: number, isFilled = true): VNode {
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

/** Shows a rank's number with its mark. */
export function rankLabel(rank: number, name = 'rank'): VNode {
  return markedName(rank, `${name} ${rank}`);
}

/** Shows a name with the mark of its number. */
export function markedName(number: number, name: string): VNode {
  return h('span', { class: 'rank-label' }, [
    h('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, [rankMark(number, 7, 7)]),
    name,
  ]);
}
