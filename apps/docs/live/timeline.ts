import { defineComponent, h, shallowRef, watch, type PropType, type VNode } from 'vue';
import { horizontalAxis, nearEnd } from '../explorers/axis.ts';
import { numbersOf } from '../explorers/controls.ts';
import { millisecondsText } from '../explorers/quantities.ts';
import { useWidth } from '../explorers/use-width.ts';
import type { Snapshot, Span } from './live-job.ts';
import type { LiveRankState } from './live-run.ts';

type Category = Span['category'];
type Snapshots = readonly Snapshot<unknown>[];

/** Each kind of work has its own lane, so that not only colour distinguishes them. */
const lanes = [
  { name: 'computes', categories: ['compute', 'stage'], fill: 'var(--forward)' },
  { name: 'communicates', categories: ['collective', 'transfer'], fill: 'var(--backward)' },
  { name: 'plans', categories: ['graph', 'data'], fill: 'var(--weight-gradient)' },
] as const satisfies readonly { name: string; categories: readonly Category[]; fill: string }[];

const [LEFT, RIGHT, NAME, LANE, GAP, AXIS] = [96, 10, 18, 16, 10, 26] as const;
const ROW = NAME + LANE * lanes.length + GAP;
/** The width that the drawing has until the page has measured it. */
const ASSUMED_WIDTH = 640;

/**
 * Draws what each rank did in the latest step that all ranks have recorded, on one clock. It has the same height
 * before the first one, so that nothing below it moves.
 */
export const Timeline = defineComponent({
  name: 'Timeline',
  props: {
    size: { type: Number, required: true },
    ranks: { type: Array as PropType<readonly LiveRankState<unknown>[]>, required: true },
  },
  setup(props) {
    const { element, width } = useWidth(ASSUMED_WIDTH);
    const shown = shallowRef<Snapshots>([]);
    watch(
      () => props.ranks,
      (ranks) => {
        const snapshots = ranks.flatMap(({ snapshot }) => snapshot ?? []);
        // Ranks send a step one after another. Until all have sent it, the step before stays.
        if (snapshots.length === 0) shown.value = [];
        else if (isOneStep(snapshots, props.size)) shown.value = snapshots;
      },
    );

    return (): VNode => {
      const spans = shown.value.flatMap((each) => each.spans);
      const first = Math.min(...spans.map(({ startMs }) => startMs));
      const took =
        Math.max(...spans.map(({ startMs, durationMs }) => startMs + durationMs)) - first;
      const step = shown.value[0]?.step;
      const height = props.size * ROW + AXIS;
      return h('figure', { class: 'timeline' }, [
        h(
          'figcaption',
          step === undefined
            ? 'Timeline of a step: none is recorded yet'
            : `Timeline of step ${step}, which took ${millisecondsText(took)}`,
        ),
        h(
          'svg',
          {
            ref: element,
            height,
            viewBox: `0 0 ${width.value} ${height}`,
            role: 'img',
            'aria-label':
              step === undefined
                ? 'What each rank did in a step: nothing is recorded yet'
                : `What each rank did in step ${step}; the numbers below say it`,
          },
          [...drawn(shown.value, props.size, { first, took, width: width.value })],
        ),
        numbersOf(
          `Work of step ${step ?? 0}`,
          [
            { title: 'rank' },
            { title: 'kind' },
            { title: 'what' },
            { title: 'begins (ms)', isNumber: true },
            { title: 'takes (ms)', isNumber: true },
          ],
          shown.value.flatMap((each, rank) =>
            each.spans.map(({ category, name, startMs, durationMs }) => [
              rank,
              category,
              name,
              (startMs - first).toFixed(3),
              durationMs.toFixed(3),
            ]),
          ),
        ),
      ]);
    };
  },
});

function isOneStep(snapshots: Snapshots, size: number): boolean {
  const step = snapshots[0]?.step;
  return (
    snapshots.length === size &&
    snapshots.every((each) => each.step === step && each.spans.length > 0)
  );
}

/** Draws the lanes of each rank above an axis in milliseconds from the beginning of the step. */
function drawn(
  snapshots: Snapshots,
  size: number,
  { first, took, width }: { readonly first: number; readonly took: number; readonly width: number },
): readonly VNode[] {
  const right = width - RIGHT;
  const end = snapshots.length === 0 ? 0 : nearEnd(Math.max(took, 1e-3));
  const x = (startMs: number): number => LEFT + ((startMs - first) / end) * (right - LEFT);
  const rows = Array.from({ length: size }, (_, rank) => {
    const top = rank * ROW;
    return [
      h('text', { x: 0, y: top + 13, class: 'rank-name' }, `rank ${rank}`),
      ...lanes.flatMap(({ name, categories, fill }, lane) => {
        const y = top + NAME + lane * LANE;
        const own = (snapshots[rank]?.spans ?? []).filter(({ category }) =>
          categories.some((each) => each === category),
        );
        return [
          h('text', { x: 0, y: y + 12 }, name),
          h('line', { x1: LEFT, x2: right, y1: y + LANE, y2: y + LANE, class: 'tick' }),
          ...own.map((span) =>
            h(
              'rect',
              {
                x: x(span.startMs),
                y: y + 2,
                width: Math.max(1, x(span.startMs + span.durationMs) - x(span.startMs)),
                height: LANE - 4,
                fill,
              },
              [h('title', `${span.name}: ${millisecondsText(span.durationMs)}`)],
            ),
          ),
        ];
      }),
    ];
  });
  return [
    ...rows.flat(),
    ...(end === 0 ? [] : horizontalAxis({ left: LEFT, right, y: size * ROW, end, unit: 'ms' })),
  ];
}
