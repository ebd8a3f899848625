import { defineComponent, h, type PropType, type VNode } from 'vue';
import { useWidth } from '../../explorers/use-width.ts';
import { rankMark } from '../rank-mark.ts';
import type { RingPass } from './ring-steps.ts';

const [LEFT, BAR, GAP, TITLE] = [62, 13, 4, 20] as const;
const ROW = TITLE + 3 * (BAR + GAP) + 12;
/** The width that a drawing has until the page has measured it, and the least width. */
const [ASSUMED_WIDTH, LEAST_WIDTH] = [640, 280] as const;

/**
 * Draws for each rank the places of the sequence whose queries it has, those whose keys and values it has at a moment, and
 * the pairs that it has computed until then. A place has the colour of the rank whose token it is.
 */
export function ringDrawing(pass: RingPass, moment: number): VNode {
  return h(RingDrawing, { pass, moment });
}

const RingDrawing = defineComponent({
  props: {
    pass: { type: Object as PropType<RingPass>, required: true },
    moment: { type: Number, required: true },
  },
  setup(props) {
    const { element, width: room } = useWidth(ASSUMED_WIDTH);
    return (): VNode => {
      const { cut, moments } = props.pass;
      const width = Math.max(room.value, LEAST_WIDTH);
      const { ranks } = cut.over;
      const height = ranks * ROW;
      const cell = (width - LEFT) / cut.length;
      const owners = Array.from({ length: ranks }, (_, rank) =>
        [...cut.placesOf(rank)].map((place) => [place, rank] as const),
      ).flat();
      const ownerOf = new Map(owners);
      const most = Math.max(
        ...Array.from({ length: ranks }, (_, rank) =>
          moments.reduce((sum, each) => sum + (each[rank]?.pairs ?? 0), 0),
        ),
      );
      const cells = (tokens: readonly number[], y: number): readonly VNode[] =>
        tokens.map((token) =>
          h('rect', {
            x: LEFT + token * cell,
            y,
            width: Math.max(1, cell - 1),
            height: BAR,
            fill: colour(ownerOf.get(token) ?? 0),
          }),
        );
      const rows = Array.from({ length: ranks }, (_, rank) => {
        const now = moments[props.moment]?.[rank];
        if (now === undefined) return [];
        const top = rank * ROW;
        const lines = [0, 1, 2].map((line) => top + TITLE + line * (BAR + GAP));
        const [first = 0, second = 0, third = 0] = lines;
        let done = 0;
        const computed = moments.slice(0, props.moment + 1).map((each, index) => {
          const wide = ((each[rank]?.pairs ?? 0) / most) * (width - LEFT);
          const x = LEFT + done;
          done += wide;
          const isNow = index === props.moment;
          return h('rect', {
            x,
            y: third,
            width: Math.max(0, wide - 1),
            height: BAR,
            class: isNow ? 'pairs now' : 'pairs',
          });
        });
        return [
          rankMark(rank, 7, top + 9),
          h('text', { x: 18, y: top + 14, class: 'rank-name' }, rankTitle(rank, now.from)),
          ...lines.map((y, line) =>
            h('g', [
              h('text', { x: 0, y: y + 11 }, lineNames[line]),
              h('rect', { x: LEFT, y, width: width - LEFT, height: BAR, class: 'track' }),
            ]),
          ),
          ...cells(now.queries, first),
          ...cells(now.keys, second),
          ...computed,
        ];
      }).flat();
      return h(
        'div',
        {
          ref: element,
          class: 'scroller',
          tabindex: 0,
          role: 'region',
          'aria-label': 'Who has which tokens',
        },
        h(
          'svg',
          {
            width,
            height,
            viewBox: `0 0 ${width} ${height}`,
            role: 'img',
            'aria-label': 'Who has which tokens; the table below says it',
          },
          rows,
        ),
      );
    };
  },
});

const lineNames = ['queries', 'keys', 'pairs'] as const;

function colour(rank: number): string {
  return `var(--rank-${rank % 8})`;
}

function rankTitle(rank: number, from: number | null): string {
  return from === null ? `rank ${rank}` : `rank ${rank}, block from rank ${from}`;
}
