import { pipelineSchedule, type ScheduleName, type TimedAction } from '@shardwise/strategies';
import {
  computed,
  defineComponent,
  h,
  onBeforeUnmount,
  ref,
  shallowRef,
  watch,
  type VNode,
} from 'vue';
import { choice, slider, table } from '../../explorers/controls.ts';
import { actionLegend, scheduleDrawing } from '../../explorers/schedule-drawing.ts';
import { millisecondsText, percentText } from '../../explorers/quantities.ts';
import { useMotion } from '../../explorers/use-motion.ts';
import { lossChart } from '../line-chart.ts';
import { rankLabel } from '../rank-mark.ts';
import { useLiveRun } from '../use-live-run.ts';
import { momentDrawing, wordOf } from './moment-drawing.ts';
import type { PipelineTask } from './pipeline-task.ts';
import { momentOf, nextMoment, plannedTrace, traceOf, type Trace } from './trace.ts';

const STEPS = 200;
/** The duration of the animation of a step, which really takes some milliseconds. */
const PLAY_MS = 8000;
const schedules = ['gpipe', '1f1b', 'interleaved1f1b', 'zb1p', 'zbv'] as const;

/** Trains a pipeline on ranks of this page. Shows where each microbatch was, as the ranks have recorded it. */
export const LivePipeline = defineComponent({
  name: 'LivePipeline',
  setup() {
    const schedule = ref<ScheduleName>('1f1b');
    const size = ref(2);
    const microbatches = ref(6);
    const seed = ref(1);
    /** The time that is shown, as a share of the step. */
    const moment = ref(0);
    let playing: number | undefined;
    const isPlaying = ref(false);
    const canMove = useMotion();

    const { state, frame } = useLiveRun<null>({
      title: 'A pipeline on ranks of this page',
      size,
      options: () => ({
        size: size.value,
        steps: STEPS,
        seed: seed.value,
        task: {
          schedule: schedule.value,
          microbatches: microbatches.value,
        } satisfies PipelineTask,
        script: () =>
          new Worker(new URL('./pipeline-rank.ts', import.meta.url), { type: 'module' }),
      }),
    });
    const chosen = computed(() =>
      pipelineSchedule(schedule.value, { ranks: size.value, microbatches: microbatches.value }),
    );
    /** The latest step that all ranks have recorded. It stays until all of them have sent the next one. */
    const recorded = shallowRef<Trace>();
    watch([state, chosen], ([now], [, before]) => {
      if (now === undefined || chosen.value !== before) recorded.value = undefined;
      if (now !== undefined) recorded.value = traceOf(chosen.value, now.ranks) ?? recorded.value;
    });
    /** Before a step is recorded, the plan of the schedule is drawn in its place. */
    const trace = computed(() => recorded.value ?? plannedTrace(chosen.value));

    const stop = (): void => {
      if (playing !== undefined) cancelAnimationFrame(playing);
      playing = undefined;
      isPlaying.value = false;
    };
    const play = (): void => {
      isPlaying.value = true;
      const begin = performance.now() - (moment.value >= 1 ? 0 : moment.value * PLAY_MS);
      const draw = (now: number): void => {
        moment.value = Math.min(1, Math.max(0, (now - begin) / PLAY_MS));
        if (moment.value < 1) playing = requestAnimationFrame(draw);
        else stop();
      };
      playing = requestAnimationFrame(draw);
    };
    onBeforeUnmount(stop);

    const buttons = (shown: Trace): VNode => {
      const button = (text: string, onClick: () => void): VNode =>
        h('button', { type: 'button', onClick }, text);
      return h('div', { class: 'buttons' }, [
        isPlaying.value
          ? button('Hold', stop)
          : canMove.value
            ? button('Play the step', play)
            : null,
        button('Next action', () => {
          stop();
          moment.value = nextMoment(shown, moment.value * shown.endMs) / shown.endMs;
        }),
        h('label', { class: 'control moment' }, [
          h('span', 'Moment'),
          h('input', {
            type: 'range',
            'aria-label': 'Moment',
            min: 0,
            max: 1,
            step: 0.001,
            value: moment.value,
            'aria-valuetext': millisecondsText(moment.value * shown.endMs),
            onInput: (event: Event) => {
              stop();
              moment.value = Number((event.target as HTMLInputElement).value);
            },
          }),
          h('output', millisecondsText(moment.value * shown.endMs)),
        ]),
      ]);
    };

    const drawing = (shown: Trace): VNode => {
      const atMs = moment.value * shown.endMs;
      const ranks = momentOf(shown, microbatches.value, atMs);
      return h('div', { class: 'pipeline' }, [
        h('p', { class: 'setting two-lines' }, traceText(shown)),
        scheduleDrawing({
          title:
            shown.step === undefined
              ? 'What the schedule plans'
              : 'What each rank computed in this step',
          description:
            shown.step === undefined
              ? `The actions of ${size.value} ranks, as the schedule plans them`
              : `The actions of ${size.value} ranks in step ${shown.step}, as they recorded them`,
          ranks: shown.ranks,
          endMs: shown.endMs,
          markMs: atMs,
        }),
        actionLegend(),
        buttons(shown),
        momentDrawing(ranks),
        table(
          'The ranks at this moment',
          [
            { title: 'rank' },
            { title: 'computes' },
            { title: 'activations wait' },
            { title: 'gradients wait' },
            { title: 'keeps', isNumber: true },
          ],
          ranks.map(({ computes, activations, gradients, kept }, rank) => [
            { text: `rank ${rank}`, node: rankLabel(rank) },
            {
              text: computedText(computes),
              node: h('span', { class: 'long-name' }, computedText(computes)),
            },
            activations.join(', ') || 'none',
            gradients.join(', ') || 'none',
            kept,
          ]),
        ),
      ]);
    };

    return (): VNode =>
      frame(
        [
          choice('Schedule', schedule, schedules),
          choice('Microbatches', microbatches, [2, 4, 6, 8, 12]),
          choice('Ranks', size, [2, 3, 4]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          drawing(trace.value),
          lossChart(state.value?.losses ?? [], { most: STEPS, yRange: [0.001, 1] }),
        ],
      );
  },
});

/** Says how long the step took and how much of it was waiting. */
function traceText({ step, endMs, bubble, plannedBubble }: Trace): string {
  if (step === undefined) {
    return `This is the plan of the schedule, with 1 ms for a forward and 2 ms for a backward. By it, ranks wait for ${percentText(bubble)} of the time. Train to see what the ranks record.`;
  }
  return `Step ${step} took ${millisecondsText(endMs)}. Ranks waited for ${percentText(bubble)} of the time. With a core for each rank, and actions as long as these, it would be ${percentText(plannedBubble)}.`;
}

const computedText = (computes: TimedAction | undefined): string =>
  computes === undefined ? 'nothing: it waits' : wordOf(computes.action);
