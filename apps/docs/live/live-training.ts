import {
  defineComponent,
  h,
  onBeforeUnmount,
  onMounted,
  ref,
  shallowRef,
  type PropType,
  type VNode,
} from 'vue';
import { choice, explorer, slider, table } from '../explorers/controls.ts';
import { bytesText, millisecondsText } from '../explorers/quantities.ts';
import { fitDrawing, lossChart, mark } from './drawings.ts';
import { LiveRun, type LiveState } from './live-run.ts';
import type { LiveTask } from './live-task.ts';

const STEPS = 400;
/** How often the status is spoken, at most. */
const SPEAK_MS = 4000;

/** A training on ranks that are workers of this page. Nothing runs before the reader starts it. */
export const LiveTraining = defineComponent({
  name: 'LiveTraining',
  props: {
    model: { type: String as PropType<LiveTask['model']>, default: 'spirals' },
    size: { type: Number, default: 2 },
    strategy: { type: String as PropType<LiveTask['strategy']>, default: 'ddp' },
  },
  setup(props) {
    const model = ref<LiveTask['model']>(props.model);
    const strategy = ref<LiveTask['strategy']>(props.strategy);
    const size = ref(props.size);
    const seed = ref(1);
    const state = shallowRef<LiveState>();
    const problem = ref('');
    const spoken = ref('');
    const canRun = ref(false);
    let run: LiveRun | undefined;
    let spokenAt = 0;

    const reset = (): void => {
      run?.dispose();
      run = undefined;
      state.value = undefined;
      problem.value = '';
    };

    const start = (paused: boolean): void => {
      reset();
      const started = new LiveRun(
        {
          model: model.value,
          strategy: strategy.value,
          size: size.value,
          seed: seed.value,
          steps: STEPS,
        },
        (next) => {
          state.value = next;
          if (next.status === 'over' || performance.now() - spokenAt > SPEAK_MS) {
            spokenAt = performance.now();
            spoken.value = statusOf(next);
          }
        },
      );
      run = started;
      if (paused) started.step();
      started.start().catch((error: unknown) => {
        problem.value = error instanceof Error ? error.message : String(error);
      });
    };

    const pauseWhenHidden = (): void => {
      if (document.hidden) run?.pause();
    };
    onMounted(() => {
      canRun.value = typeof Float16Array !== 'undefined' && typeof Worker !== 'undefined';
      if (!canRun.value)
        problem.value = 'This browser lacks Float16Array. Update it to train here.';
      document.addEventListener('visibilitychange', pauseWhenHidden);
    });
    onBeforeUnmount(() => {
      reset();
      document.removeEventListener('visibilitychange', pauseWhenHidden);
    });

    const button = (
      text: string,
      isDisabled: boolean,
      onClick: () => void,
      isPrimary = false,
    ): VNode =>
      h(
        'button',
        { type: 'button', disabled: isDisabled, class: { primary: isPrimary }, onClick },
        text,
      );

    return (): VNode => {
      const now = state.value;
      const isAlive = now !== undefined && now.status !== 'over';
      return explorer('Training in this page', [
        h('fieldset', { class: 'controls', disabled: isAlive }, [
          h('legend', { class: 'visually-hidden' }, 'What is trained'),
          choice('Task', model, { 'two spirals': 'spirals', sine: 'sine' } as const),
          choice('Strategy', strategy, ['ddp', 'zero-2', 'fsdp'] as const),
          choice('Ranks', size, [1, 2, 3, 4, 6, 8]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ]),
        h('div', { class: 'buttons' }, [
          now?.status === 'running'
            ? button('Pause', false, () => run?.pause(), true)
            : now?.status === 'paused'
              ? button('Go on', false, () => run?.resume(), true)
              : button('Train', !canRun.value || isAlive, () => start(false), true),
          button(
            'Step',
            !canRun.value || now?.status === 'running' || now?.status === 'starting',
            () => (now?.status === 'paused' ? run?.step() : start(true)),
          ),
          button('Stop', now === undefined, reset),
          size.value > 1
            ? button(`Kill rank ${size.value - 1}`, !isAlive, () => run?.kill(size.value - 1))
            : null,
        ]),
        problem.value === '' ? null : h('p', { class: 'problem', role: 'alert' }, problem.value),
        h('p', { class: 'summary' }, now === undefined ? 'Not started.' : statusOf(now)),
        h('p', { class: 'visually-hidden', 'aria-live': 'polite' }, spoken.value),
        now === undefined || now.setting === '' ? null : h('p', { class: 'setting' }, now.setting),
        h('div', { class: 'two' }, [
          h('figure', [
            h(
              'figcaption',
              model.value === 'sine'
                ? 'Points, and what is learned'
                : 'Points by rank, and the boundary',
            ),
            fitDrawing(model.value, size.value, now?.values ?? []),
          ]),
          h('figure', [h('figcaption', 'Loss'), lossChart(now?.losses ?? [], STEPS)]),
        ]),
        ranksTable(size.value, now),
      ]);
    };
  },
});

function statusOf({ status, losses, stepMs, ranks }: LiveState): string {
  const failed = ranks.find(({ end }) => end?.status === 'failed')?.end?.error;
  if (status === 'starting') return 'Ranks are starting.';
  const loss = losses.at(-1);
  const done = `${losses.length} of ${STEPS} steps, loss ${loss?.toPrecision(3) ?? '–'}`;
  if (failed !== undefined) return `Ended after ${done}.`;
  const words = { running: 'Training', paused: 'Paused', over: 'Over' } as const;
  return `${words[status]}: ${done}, ${millisecondsText(stepMs)} a step.`;
}

const words = { closed: 'done', failed: 'failed', killed: 'killed', terminated: 'ended' } as const;

function ranksTable(size: number, state: LiveState | undefined): VNode {
  return table(
    'The ranks',
    [
      { title: 'rank' },
      { title: 'keeps', isNumber: true },
      { title: 'computed', isNumber: true },
      { title: 'waited', isNumber: true },
      { title: 'state' },
    ],
    Array.from({ length: size }, (_, rank) => {
      const { snapshot, end } = state?.ranks[rank] ?? {};
      const name = h('span', { class: 'rank-label' }, [
        h('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, [mark(rank, 7, 7, true)]),
        `rank ${rank}`,
      ]);
      const word = end === undefined ? (state?.status ?? 'not started') : words[end.status];
      return [
        name,
        snapshot === undefined ? '–' : bytesText(snapshot.statesBytes),
        snapshot === undefined ? '–' : millisecondsText(snapshot.computeMs),
        snapshot === undefined ? '–' : millisecondsText(snapshot.communicationMs),
        h(
          'span',
          { class: 'rank-state' },
          end?.error === undefined ? word : `${word}: ${end.error.message}`,
        ),
      ];
    }),
  );
}
