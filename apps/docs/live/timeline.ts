import { h, type VNode } from 'vue';
import { numbersOf } from '../explorers/controls.ts';
import { millisecondsText } from '../explorers/quantities.ts';
import type { Span } from './live-job.ts';
import type { LiveRankState } from './live-run.ts';

type Category = Span['category'];

/** Each kind of work has its own lane, so that not only colour distinguishes them. */
const lanes = [
  { name: 'computes', categories: ['compute', 'stage'], fill: 'var(--forward)' },
  { name: 'communicates', categories: ['collective', 'transfer'], fill: 'var(--backward)' },
  { name: 'plans', categories: ['graph', 'data'], fill: 'var(--weight-gradient)' },
] as const satisfies readonly { name: string; categories: readonly Category[]; fill: string }[];

const [LEFT, WIDTH, LANE] = [150, 640, 12];

/** Draws what each rank did in the latest step that all ranks have recorded, on one clock. */
export function timeline<Look>(ranks: readonly LiveRankState<Look>[]): VNode | null {
  const snapshots = ranks.flatMap(({ snapshot }) => snapshot ?? []);
  const step = snapshots[0]?.step;
  if (
    step === undefined ||
    snapshots.length < ranks.length ||
    snapshots.some((each) => each.step !== step || each.spans.length === 0)
  ) {
    return null;
  }
  const all = snapshots.flatMap(({ spans }) => spans);
  const first = Math.min(...all.map(({ startMs }) => startMs));
  const last = Math.max(...all.map(({ startMs, durationMs }) => startMs + durationMs));
  const x = (milliseconds: number): number =>
    LEFT + ((milliseconds - first) / Math.max(last - first, 1e-3)) * (WIDTH - LEFT);
  const rowHeight = LANE * lanes.length + 10;
  const height = snapshots.length * rowHeight;
  return h('figure', { class: 'timeline' }, [
    h('figcaption', `Step ${step}, ${millisecondsText(last - first)} on one clock`),
    h('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Timeline' }, [
      h(
        'svg',
        {
          width: WIDTH,
          height,
          viewBox: `0 0 ${WIDTH} ${height}`,
          role: 'img',
          'aria-label': `What each rank did in step ${step}; the numbers below say it`,
        },
        snapshots.flatMap(({ spans }, rank) =>
          lanes.flatMap(({ name, categories, fill }, lane) => {
            const y = rank * rowHeight + lane * LANE;
            const own = spans.filter(({ category }) =>
              categories.some((each) => each === category),
            );
            return [
              h(
                'text',
                { x: 0, y: y + 10, class: 'small' },
                lane === 0 ? `rank ${rank} ${name}` : '',
              ),
              lane === 0 ? null : h('text', { x: 42, y: y + 10, class: 'small' }, name),
              ...own.map((span) =>
                h(
                  'rect',
                  {
                    x: x(span.startMs),
                    y: y + 1,
                    width: Math.max(1, x(span.startMs + span.durationMs) - x(span.startMs)),
                    height: LANE - 2,
                    fill,
                  },
                  [h('title', `${span.name}: ${millisecondsText(span.durationMs)}`)],
                ),
              ),
            ];
          }),
        ),
      ),
    ]),
    numbersOf(
      `Work of step ${step}`,
      [
        { title: 'rank' },
        { title: 'kind' },
        { title: 'what' },
        { title: 'begins (ms)', isNumber: true },
        { title: 'takes (ms)', isNumber: true },
      ],
      snapshots.flatMap(({ spans }, rank) =>
        spans.map(({ category, name, startMs, durationMs }) => [
          rank,
          category,
          name,
          (startMs - first).toFixed(3),
          durationMs.toFixed(3),
        ]),
      ),
    ),
  ]);
}
