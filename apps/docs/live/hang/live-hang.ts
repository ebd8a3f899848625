import type { profiler } from 'shardwise/browser';
import { computed, defineComponent, h, onBeforeUnmount, ref, watch, type VNode } from 'vue';
import { choice, explorer, spoken, table, type Cell } from '../../explorers/controls.ts';
import { rankLabel } from '../rank-mark.ts';
import { stateCell } from '../ranks-table.ts';
import { useRanks } from '../use-ranks.ts';
import {
  CALL_LIMIT_MS,
  type DumpRequest,
  type HangMessage,
  type HangTask,
  type Mistake,
  mistakes,
} from './hang-task.ts';

/** How long the page waits for dumps. Ranks whose threads are free answer at once. */
const DUMP_MS = 700;
/** The number of latest calls that are shown of each rank. */
const SHOWN_CALLS = 6;

/** Runs ranks of this page, one of which makes a mistake. Shows their records, and the library's verdict. */
export const LiveHang = defineComponent({
  name: 'LiveHang',
  setup() {
    const mistake = ref<Mistake>('leave out');
    const size = ref(3);
    const culprit = ref(1);
    const verdict = ref<readonly string[]>([]);
    const ranks = useRanks<HangMessage>();
    let timer: ReturnType<typeof setTimeout> | undefined;

    const dumps = computed((): readonly profiler.FlightDump[] =>
      (ranks.state.value?.values ?? []).flatMap((own) =>
        own.flatMap((message) => (message.kind === 'dump' ? [message.dump] : [])),
      ),
    );
    const judge = async (): Promise<void> => {
      const { blame } = await import('shardwise/browser');
      verdict.value = blame(dumps.value);
      ranks.stop();
    };
    watch(
      () => dumps.value.length,
      (count, before) => {
        if (count === 0 || before > 0) return;
        ranks.post({ wantsDump: true } satisfies DumpRequest);
        timer = setTimeout(() => void judge(), DUMP_MS);
      },
    );
    onBeforeUnmount(() => clearTimeout(timer));

    const start = (): void => {
      clearTimeout(timer);
      verdict.value = [];
      const task: HangTask = {
        culprit: Math.min(culprit.value, size.value - 1),
        mistake: mistake.value,
      };
      ranks.start(
        size.value,
        task,
        () => new Worker(new URL('./hang-rank.ts', import.meta.url), { type: 'module' }),
      );
    };

    const summary = (): string => {
      if (ranks.state.value === undefined) return 'Not started.';
      if (verdict.value.length > 0) return `Blame: ${verdict.value[0] ?? ''}`;
      return dumps.value.length > 0
        ? 'A call has failed. The page asks all ranks for what they have recorded.'
        : `The ranks train. A call waits ${CALL_LIMIT_MS / 1000} seconds for the others.`;
    };

    return (): VNode => {
      const state = ranks.state.value;
      const isRunning = state !== undefined && verdict.value.length === 0;
      return explorer('A hang, and who is to blame', [
        h('fieldset', { class: 'controls', disabled: isRunning }, [
          h('legend', { class: 'visually-hidden' }, 'Which mistake is made'),
          choice('A rank', mistake, mistakes),
          choice(
            'It is rank',
            culprit,
            Array.from({ length: size.value }, (_, rank) => rank),
          ),
          choice('Ranks', size, [2, 3, 4]),
        ]),
        h('div', { class: 'buttons' }, [
          h(
            'button',
            {
              type: 'button',
              class: 'primary',
              disabled: !ranks.canRun() || isRunning,
              onClick: start,
            },
            'Train with the mistake',
          ),
          h(
            'button',
            {
              type: 'button',
              disabled: state === undefined,
              onClick: () => {
                clearTimeout(timer);
                ranks.stop();
                verdict.value = [];
                ranks.state.value = undefined;
              },
            },
            'Reset',
          ),
        ]),
        ...ranks.notes(),
        spoken(summary()),
        state === undefined
          ? null
          : table(
              'The ranks',
              [
                { title: 'rank' },
                { title: 'step', isNumber: true },
                { title: 'latest call' },
                { title: 'ended with' },
              ],
              state.values.map((own, rank): readonly Cell[] => {
                const call = own.findLast((message) => message.kind === 'call');
                const said = state.ends[rank]?.error?.message ?? '–';
                return [
                  { text: `rank ${rank}`, node: rankLabel(rank) },
                  call?.kind === 'call' ? call.step : 0,
                  call?.kind === 'call' ? call.call : 'none',
                  stateCell(said),
                ];
              }),
            ),
        verdict.value.length === 0 ? null : recordTable(size.value, dumps.value),
        verdict.value.length === 0
          ? null
          : h('figure', [
              h('figcaption', 'What blame says'),
              h(
                'pre',
                { class: 'scroller', tabindex: 0, 'aria-label': 'What blame says' },
                verdict.value.join('\n'),
              ),
            ]),
      ]);
    };
  },
});

const states = { scheduled: '– waits', started: '– runs', completed: '– done' } as const;

/** Shows the latest calls of all ranks side by side, with a row for each call. */
function recordTable(size: number, dumps: readonly profiler.FlightDump[]): VNode {
  const calls = dumps.map(
    ({ rank, entries }) =>
      [
        rank,
        new Map(
          entries.map(({ collective_seq_id: number, profiling_name: name, input_sizes, state }) => [
            number,
            [
              name.replace(/^[^:]*:/, ''),
              ...input_sizes.map((shape) => `[${shape.join(', ')}]`),
              states[state],
            ].join(' '),
          ]),
        ),
      ] as const,
  );
  const numbers = [...new Set(calls.flatMap(([, own]) => [...own.keys()]))].toSorted(
    (a, b) => a - b,
  );
  return table(
    'What the ranks have recorded',
    [{ title: 'call' }, ...Array.from({ length: size }, (_, rank) => ({ title: `rank ${rank}` }))],
    numbers.slice(-SHOWN_CALLS).map((number) => [
      `#${number}`,
      ...Array.from({ length: size }, (_, rank) => {
        const own = calls.find(([each]) => each === rank)?.[1];
        return own === undefined ? 'no dump' : (own.get(number) ?? 'not called');
      }),
    ]),
  );
}
