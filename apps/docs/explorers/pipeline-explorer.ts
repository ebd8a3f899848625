import {
  formatAction,
  pipelineSchedule,
  readSchedule,
  scheduleNames,
  simulateSchedule,
  writeSchedule,
  type Schedule,
  type ScheduleName,
  type ScheduleSimulation,
  type ScheduledAction,
} from '@shardwise/strategies';
import { computed, defineComponent, h, ref, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { bytesText, millisecondsText, percentText } from './quantities.ts';

type Outcome =
  | { readonly schedule: Schedule; readonly simulation: ScheduleSimulation }
  | { readonly problem: string };

const fills: Readonly<Record<string, string>> = {
  forward: 'var(--forward)',
  backward: 'var(--backward)',
  inputGradient: 'var(--input-gradient)',
  weightGradient: 'var(--weight-gradient)',
};

const legend = [
  ['F', 'forward', 'forward'],
  ['B', 'backward', 'backward'],
  ['I', 'input gradient', 'inputGradient'],
  ['W', 'weight gradient', 'weightGradient'],
] as const;

/** A schedule, simulated by the library: when each rank computes what, and what it keeps. */
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
    /** The reader's own schedule; empty where the named one is shown. */
    const text = ref('');

    const outcome = computed((): Outcome => {
      try {
        const schedule =
          text.value.trim() === ''
            ? pipelineSchedule(name.value, { ranks: ranks.value, microbatches: microbatches.value })
            : readSchedule(text.value, { name: 'your own' });
        // A rank with two stages has half of its layers in each.
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
          slider('Forward', forwardMs, { min: 0.5, max: 4, step: 0.5 }, ' ms'),
          slider('Input gradient', inputGradientMs, { min: 0.5, max: 4, step: 0.5 }, ' ms'),
          slider('Weight gradient', weightGradientMs, { min: 0, max: 4, step: 0.5 }, ' ms'),
          slider('Message', latencyMs, { min: 0, max: 4, step: 0.5 }, ' ms'),
          slider('Activations', activationMiB, { min: 8, max: 512, step: 8 }, ' MiB'),
        ]),
        'problem' in shown
          ? h('p', { class: 'problem', role: 'alert' }, shown.problem)
          : h('div', [
              spoken(summaryOf(shown)),
              drawing(shown.schedule, shown.simulation),
              h(
                'p',
                { class: 'legend' },
                legend.map(([letter, meaning, kind]) =>
                  h('span', [h('i', { style: { background: fills[kind] } }, letter), meaning]),
                ),
              ),
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

const ROW = 34;
const LEFT = 56;

function drawing(schedule: Schedule, { makespanMs, ranks }: ScheduleSimulation): VNode {
  const width = Math.max(640, Math.min(2400, schedule.microbatches * schedule.ranks * 22));
  const x = (milliseconds: number): number =>
    LEFT + (milliseconds / makespanMs) * (width - LEFT - 4);
  const height = ranks.length * ROW + 8;
  return h(
    'div',
    { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Drawing of the schedule' },
    [
      h(
        'svg',
        {
          width,
          height,
          viewBox: `0 0 ${width} ${height}`,
          role: 'img',
          'aria-label': `${schedule.name} on ${ranks.length} ranks; the table has its numbers`,
        },
        ranks.flatMap(({ actions }, rank) => [
          h('text', { x: 0, y: rank * ROW + 22, class: 'rank-name' }, `rank ${rank}`),
          h('rect', {
            x: LEFT,
            y: rank * ROW + 4,
            width: width - LEFT - 4,
            height: ROW - 8,
            class: 'track',
          }),
          ...actions.flatMap(({ action, startMs, endMs }) => {
            const wide = x(endMs) - x(startMs);
            const label = formatAction(action);
            return [
              h(
                'rect',
                {
                  x: x(startMs),
                  y: rank * ROW + 4,
                  width: Math.max(0.5, wide - 1),
                  height: ROW - 8,
                  rx: 2,
                  fill: fillOf(action),
                },
                [
                  h(
                    'title',
                    `${label}: ${millisecondsText(startMs)} to ${millisecondsText(endMs)}`,
                  ),
                ],
              ),
              wide > 8 * shortLabel(action).length
                ? h(
                    'text',
                    {
                      x: x(startMs) + wide / 2,
                      y: rank * ROW + 21,
                      class: 'cell',
                      'text-anchor': 'middle',
                    },
                    shortLabel(action),
                  )
                : null,
            ];
          }),
        ]),
      ),
    ],
  );
}

function fillOf(action: ScheduledAction): string {
  return fills[action.kind === 'overlap' ? 'backward' : action.kind] ?? 'var(--forward)';
}

function shortLabel(action: ScheduledAction): string {
  if (action.kind === 'overlap') return '∥';
  const label = formatAction(action);
  return label.replace(/^\d+/, '');
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
