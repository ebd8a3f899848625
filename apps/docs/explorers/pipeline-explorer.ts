import {
  pipelineSchedule,
  readSchedule,
  scheduleNames,
  simulateSchedule,
  writeSchedule,
  type Schedule,
  type ScheduleName,
  type ScheduleSimulation,
} from '@shardwise/strategies';
import { computed, defineComponent, h, ref, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { actionLegend, scheduleDrawing } from './schedule-drawing.ts';
import { bytesText, millisecondsText, percentText } from './quantities.ts';

type Outcome =
  | { readonly schedule: Schedule; readonly simulation: ScheduleSimulation }
  | { readonly problem: string };

/** Shows a schedule that the library simulates: what each rank computes at which time, and what it keeps. */
export const PipelineExplorer = defineComponent({
  name: 'PipelineExplorer',
  setup() {
    const name = ref<ScheduleName>('1f1b');
    const ranks = ref(4);
    const microbatches = ref(8);
    const forwardMs = ref(1);
    const inputGradientMs = ref(1);
    const weightGradientMs = ref(1);
    const latencyMs = ref(0);
    const activationMiB = ref(64);
    /** The reader's own schedule. Empty if a named schedule is shown. */
    const text = ref('');

    const outcome = computed((): Outcome => {
      try {
        const schedule =
          text.value.trim() === ''
            ? pipelineSchedule(name.value, { ranks: ranks.value, microbatches: microbatches.value })
            : readSchedule(text.value, { name: 'your own' });
        // A rank with two stages has half of its layers in each of them.
        const share = schedule.ranks / schedule.stages;
        const stage = {
          forwardMs: forwardMs.value * share,
          inputGradientMs: inputGradientMs.value * share,
          weightGradientMs: weightGradientMs.value * share,
          activationBytes: activationMiB.value * 2 ** 20 * share,
        };
        const stages = Array.from({ length: schedule.stages }, () => stage);
        const link = { latencyMs: latencyMs.value };
        return { schedule, simulation: simulateSchedule(schedule, { stages, link }) };
      } catch (error) {
        return { problem: error instanceof Error ? error.message : String(error) };
      }
    });

    return (): VNode => {
      const shown = outcome.value;
      return explorer('Pipeline schedules', [
        h('div', { class: 'controls' }, [
          choice('Schedule', name, scheduleNames),
          slider('Ranks', ranks, { min: 2, max: 8 }),
          slider('Microbatches', microbatches, { min: 1, max: 24 }),
          slider('Forward', forwardMs, { min: 0.5, max: 4, step: 0.5 }, 'ms'),
          slider('Input gradient', inputGradientMs, { min: 0.5, max: 4, step: 0.5 }, 'ms'),
          slider('Weight gradient', weightGradientMs, { min: 0, max: 4, step: 0.5 }, 'ms'),
          slider('Latency of a message', latencyMs, { min: 0, max: 4, step: 0.5 }, 'ms'),
          slider(
            'Activations of a microbatch',
            activationMiB,
            { min: 8, max: 512, step: 8 },
            'MiB',
          ),
        ]),
        'problem' in shown
          ? h('p', { class: 'problem', role: 'alert' }, shown.problem)
          : h('div', [
              spoken(summaryOf(shown)),
              scheduleDrawing({
                title: 'Drawing of the schedule',
                description: `${shown.schedule.name} on ${shown.schedule.ranks} ranks; the table has its numbers`,
                ranks: shown.simulation.ranks.map(({ actions }) => actions),
                endMs: shown.simulation.makespanMs,
              }),
              actionLegend(),
              ranksTable(shown.simulation),
            ]),
        h('details', [
          h('summary', 'Your own schedule, as text'),
          h(
            'p',
            'A row for each rank, cells between commas. 0F2 is the forward of microbatch 2 in stage 0.',
          ),
          h('textarea', {
            'aria-label': 'Schedule as text',
            rows: 6,
            spellcheck: false,
            value: text.value,
            onInput: (event: Event) => {
              text.value = (event.target as HTMLTextAreaElement).value;
            },
          }),
          h('div', { class: 'buttons' }, [
            h(
              'button',
              {
                type: 'button',
                onClick: () => {
                  if ('schedule' in shown) text.value = writeSchedule(shown.schedule);
                },
              },
              'Begin with this schedule',
            ),
            h(
              'button',
              { type: 'button', onClick: () => (text.value = '') },
              'Back to the named one',
            ),
          ]),
        ]),
      ]);
    };
  },
});

function summaryOf({
  schedule,
  simulation,
}: Exclude<Outcome, { readonly problem: string }>): string {
  const { makespanMs, bubble, ranks } = simulation;
  const most = Math.max(...ranks.map(({ peakActivationBytes }) => peakActivationBytes));
  return `${schedule.name}: ${millisecondsText(makespanMs)}, bubble ${percentText(bubble)}, a rank keeps ${bytesText(most)} of activations at most.`;
}

function ranksTable({ ranks }: ScheduleSimulation): VNode {
  return table(
    'What each rank does',
    [
      { title: 'rank' },
      { title: 'computes', isNumber: true },
      { title: 'idle', isNumber: true },
      { title: 'microbatches kept', isNumber: true },
      { title: 'activations kept', isNumber: true },
    ],
    ranks.map(({ busyMs, idleMs, peakMicrobatches, peakActivationBytes }, rank) => [
      `rank ${rank}`,
      millisecondsText(busyMs),
      millisecondsText(idleMs),
      peakMicrobatches,
      bytesText(peakActivationBytes),
    ]),
  );
}
