import { formatAction, type ScheduledAction } from '@shardwise/strategies';
import { defineComponent, h, type PropType, type VNode } from 'vue';
import { fillOf } from '../../explorers/schedule-drawing.ts';
import { useWidth } from '../../explorers/use-width.ts';
import type { RankMoment } from './trace.ts';

const [HEIGHT, TOKEN, TOKEN_GAP, GAP] = [132, 20, 3, 12];
/** The width that a drawing has until the page has measured it, and the least width of a rank. */
const [ASSUMED_WIDTH, LEAST_RANK] = [640, 150] as const;
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
  return h(MomentDrawing, { ranks });
}

const MomentDrawing = defineComponent({
  props: { ranks: { type: Array as PropType<readonly RankMoment[]>, required: true } },
  setup(props) {
    const { element, width: room } = useWidth(ASSUMED_WIDTH);
    return (): VNode => {
      const width = Math.max(room.value, LEAST_RANK * props.ranks.length);
      return h(
        'div',
        {
          ref: element,
          class: 'scroller',
          tabindex: 0,
          role: 'region',
          'aria-label': 'Where the microbatches are',
        },
        [
          h(
            'svg',
            {
              width,
              height: HEIGHT,
              viewBox: `0 0 ${width} ${HEIGHT}`,
              role: 'img',
              'aria-label': 'Where the microbatches are; the table below says it',
            },
            props.ranks.flatMap((moment, rank) =>
              rankBox(moment, rank, width / props.ranks.length),
            ),
          ),
        ],
      );
    };
  },
});

function rankBox(
  { computes, activations, gradients, kept }: RankMoment,
  rank: number,
  width: number,
): readonly VNode[] {
  const left = rank * width + (rank === 0 ? 0 : GAP);
  const wide = (rank + 1) * width - left;
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
      x: x + direction * column * (TOKEN + TOKEN_GAP),
      y: 30 + (index % COLUMN) * (TOKEN + TOKEN_GAP),
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
