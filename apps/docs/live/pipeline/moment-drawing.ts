import { formatAction, type ScheduledAction } from '@shardwise/strategies';
import { h, type VNode } from 'vue';
import { fillOf } from '../../explorers/schedule-drawing.ts';
import type { RankMoment } from './trace.ts';

const [WIDTH, HEIGHT, TOKEN, GAP] = [640, 132, 20, 3];
/** The number of tokens in a column. */
const COLUMN = 4;

const words: Readonly<Record<string, string>> = {
  forward: 'forward',
  backward: 'backward',
  inputGradient: 'input gradient',
  weightGradient: 'weight gradient',
};

/** Describes an action, such as `forward of microbatch 2 in stage 0`. */
export function wordOf(action: ScheduledAction): string {
  if (action.kind === 'overlap') return action.actions.map(wordOf).join(' and ');
  return `${words[action.kind]} of microbatch ${action.microbatch} in stage ${action.stage}`;
}

/**
 * Draws ranks side by side. A microbatch is a number. It stands in the middle of the rank that computes it, on the left
 * of a rank where its activation waits, and on the right where its gradient waits.
 */
export function momentDrawing(ranks: readonly RankMoment[]): VNode {
  const width = WIDTH / ranks.length;
  return h(
    'div',
    { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Where the microbatches are' },
    [
      h(
        'svg',
        {
          width: WIDTH,
          height: HEIGHT,
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          role: 'img',
          'aria-label': 'Where the microbatches are; the table below says it',
        },
        ranks.flatMap(({ computes, activations, gradients, kept }, rank) => {
          const left = rank * width + 6;
          const wide = width - 12;
          const middle = left + wide / 2;
          return [
            h('rect', { x: left, y: 22, width: wide, height: HEIGHT - 26, rx: 6, class: 'track' }),
            h('text', { x: left, y: 14, class: 'rank-name' }, `rank ${rank}, keeps ${kept}`),
            ...tokens(activations, left + 6, 1, 'var(--forward)'),
            ...tokens(gradients, left + wide - 6 - TOKEN, -1, 'var(--backward)'),
            ...(computes === undefined
              ? [h('text', { x: middle, y: 80, 'text-anchor': 'middle' }, 'waits')]
              : [
                  h('rect', {
                    x: middle - 24,
                    y: 54,
                    width: 48,
                    height: 42,
                    rx: 6,
                    fill: fillOf(computes.action),
                  }),
                  h(
                    'text',
                    { x: middle, y: 80, class: 'cell', 'text-anchor': 'middle' },
                    formatAction(computes.action),
                  ),
                ]),
          ];
        }),
      ),
    ],
  );
}

function tokens(
  microbatches: readonly number[],
  x: number,
  direction: 1 | -1,
  fill: string,
): readonly VNode[] {
  return microbatches.flatMap((microbatch, index) => {
    const column = Math.floor(index / COLUMN);
    const place = {
      x: x + direction * column * (TOKEN + GAP),
      y: 30 + (index % COLUMN) * (TOKEN + GAP),
    };
    return [
      h('rect', { ...place, width: TOKEN, height: TOKEN, rx: direction === 1 ? 10 : 3, fill }),
      h(
        'text',
        { x: place.x + TOKEN / 2, y: place.y + 14, class: 'cell', 'text-anchor': 'middle' },
        String(microbatch),
      ),
    ];
  });
}
