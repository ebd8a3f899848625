import {
  deviceNames,
  layoutText,
  stepTermNames,
  stepTerms,
  type StepTerms,
  type TrainingPlan,
} from '@shardwise/planner';
import { computed, defineComponent, h, onMounted, ref, watch, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { gigabytesText, KEPT, planInPage, secondsText, summaryOf } from './plan-in-page.ts';

const models = [
  'gpt:1.7b',
  'gpt:7.5b',
  'llama3:8b',
  'gpt:18.4b',
  'mixtral:8x7b',
  'llama3:70b',
  'gpt:175b',
  'llama3:405b',
] as const;

const colours: Readonly<Record<keyof StepTerms, string>> = {
  compute: 'var(--forward)',
  recompute: 'var(--input-gradient)',
  bubble: 'var(--vp-c-gray-2)',
  tensorParallel: 'var(--backward)',
  contextParallel: 'var(--backward)',
  expertParallel: 'var(--backward)',
  pipelineParallel: 'var(--backward)',
  dataParallel: 'var(--backward)',
  optimizer: 'var(--weight-gradient)',
  offload: 'var(--weight-gradient)',
};

/** As many reasons as the first search has. Until it has ended, empty rows keep the place of its tables. */
const usualReasons = 7;

/** What the colours of the bars mean. Messages of all axes have one colour. */
const legend = [
  ['compute', 'forward and backward'],
  ['recompute', 'computed again'],
  ['bubble', 'waiting for other stages'],
  ['dataParallel', 'messages'],
  ['optimizer', 'optimizer and offload'],
] as const satisfies readonly (readonly [keyof StepTerms, string])[];

/** Plans a training in the page, and shows the terms of a step of the best layouts. */
export const PlanExplorer = defineComponent({
  name: 'PlanExplorer',
  setup() {
    const model = ref<(typeof models)[number]>('gpt:7.5b');
    const device = ref('a100');
    const devices = ref(64);
    const batch = ref(512);
    const memory = ref(100);
    const plan = ref<TrainingPlan>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A search takes a part of a second, so it waits until the reader leaves the slider alone.
    const search = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        plan.value = planInPage({
          model: model.value,
          device: device.value,
          devices: devices.value,
          batch: batch.value,
          percent: memory.value,
        });
      }, 150);
    };
    onMounted(search);
    watch([model, device, devices, batch, memory], search);
    const rows = computed(() => plan.value?.ranked ?? []);
    const bars = computed(() =>
      plan.value === undefined
        ? Array.from({ length: KEPT }, () => ({ layout: '\u00A0', terms: [] }))
        : rows.value.map(({ layout, terms }) => ({
            layout: layoutText(layout),
            terms: stepTerms.map((term) => ({ term, seconds: terms[term] })),
          })),
    );
    const best = computed(() =>
      plan.value === undefined
        ? emptyRows(KEPT, 4)
        : rows.value.map(({ layout, stepSeconds, utilization, memory: needed }) => [
            layoutText(layout),
            secondsText(stepSeconds),
            `${(100 * utilization.mfu).toFixed(1)} %`,
            gigabytesText(needed.totalBytes),
          ]),
    );
    return (): VNode => {
      const slowest = Math.max(0, ...rows.value.map(({ stepSeconds }) => stepSeconds));
      return explorer('Plan', [
        h('div', { class: 'controls' }, [
          choice('Model', model, models),
          choice('Devices', device, deviceNames),
          choice('Number of devices', devices, [1, 8, 16, 32, 64, 128, 256]),
          slider('Rows of the batch', batch, { min: 64, max: 2048, step: 64 }),
          slider('Memory that a rank may use', memory, { min: 10, max: 100, step: 5 }, '%'),
        ]),
        spoken(plan.value === undefined ? 'Searching for the best layout.' : summaryOf(plan.value)),
        h(
          'div',
          { class: 'legend' },
          legend.map(([term, meaning]) =>
            h('span', [h('i', { style: { background: colours[term] } }), meaning]),
          ),
        ),
        h(
          'div',
          { class: 'layouts', 'aria-hidden': 'true' },
          bars.value.map(({ layout, terms }) =>
            h('div', { class: 'bar' }, [
              h('span', layout),
              h(
                'div',
                terms.map(({ term, seconds }) =>
                  h('i', {
                    title: `${stepTermNames[term]}: ${secondsText(seconds)}`,
                    style: {
                      width: `${(100 * seconds) / slowest}%`,
                      background: colours[term],
                    },
                  }),
                ),
              ),
            ]),
          ),
        ),
        best.value.length === 0
          ? null
          : table(
              'The best layouts',
              [
                { title: 'layout' },
                { title: 'step', isNumber: true },
                { title: 'MFU', isNumber: true },
                { title: 'memory of a rank', isNumber: true },
              ],
              best.value,
            ),
        table(
          'Why other layouts were left out',
          [{ title: 'layouts', isNumber: true }, { title: 'because' }],
          plan.value?.pruned.map(({ reason, count }) => [String(count), reason]) ??
            emptyRows(usualReasons, 2),
        ),
      ]);
    };
  },
});

function emptyRows(count: number, columns: number): string[][] {
  return Array.from({ length: count }, () => Array.from({ length: columns }, () => '\u00A0'));
}
