import type { ParameterSpec } from '@shardwise/core';
import {
  ddp,
  fsdp,
  planMemory,
  zero,
  type MixedPrecision,
  type PlanMemory,
} from '@shardwise/strategies';
import { computed, defineComponent, h, ref, watch, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { bytesText } from './quantities.ts';

interface Precision {
  readonly mixedPrecision?: MixedPrecision;
}

const strategies = {
  ddp: (precision: Precision) => ddp(precision),
  'ZeRO-1': (precision: Precision) => zero({ stage: 1, ...precision }),
  'ZeRO-2': (precision: Precision) => zero({ stage: 2, ...precision }),
  'ZeRO-3': (precision: Precision) => zero({ stage: 3, ...precision }),
  fsdp: (precision: Precision) => fsdp(precision),
} as const;
const strategyNames = Object.keys(strategies) as readonly (keyof typeof strategies)[];
/** bf16 has an f32 copy of each parameter beside it, which the optimizer updates. */
const precisions: Readonly<Record<string, Precision>> = {
  f32: {},
  'bf16, with f32 copies': { mixedPrecision: { parameterDtype: 'bf16', computeDtype: 'bf16' } },
};
const precisionNames = Object.keys(precisions);
const optimizers = { SGD: 0, 'SGD with momentum': 1, 'Adam, AdamW': 2 };
const parts = [
  ['parameters', 'parameterBytes', 'var(--forward)'],
  ['gradients', 'gradientBytes', 'var(--backward)'],
  ['optimizer states', 'optimizerBytes', 'var(--weight-gradient)'],
] as const satisfies readonly (readonly [string, keyof PlanMemory, string])[];

/** The parameters of a GPT, as its modules name them. */
export function gptParameters(
  layers: number,
  width: number,
  vocabulary: number,
): readonly ParameterSpec[] {
  const spec = (name: string, ...shape: readonly number[]): ParameterSpec => ({
    name,
    shape,
    dtype: 'f32',
    requiresGrad: true,
  });
  const linear = (name: string, output: number, input: number): readonly ParameterSpec[] => [
    spec(`${name}.weight`, output, input),
    spec(`${name}.bias`, output),
  ];
  return [
    spec('tokens.weight', vocabulary, width),
    spec('positions.weight', 1024, width),
    ...Array.from({ length: layers }, (_, layer) => [
      spec(`blocks.${layer}.norm1.weight`, width),
      spec(`blocks.${layer}.norm1.bias`, width),
      ...linear(`blocks.${layer}.attention.qkv`, 3 * width, width),
      ...linear(`blocks.${layer}.attention.out`, width, width),
      spec(`blocks.${layer}.norm2.weight`, width),
      spec(`blocks.${layer}.norm2.bias`, width),
      ...linear(`blocks.${layer}.up`, 4 * width, width),
      ...linear(`blocks.${layer}.down`, width, 4 * width),
    ]).flat(),
    spec('norm.weight', width),
    spec('norm.bias', width),
  ];
}

/** What a rank keeps between two steps, by strategy. */
export const MemoryExplorer = defineComponent({
  name: 'MemoryExplorer',
  setup() {
    const layers = ref(12);
    const width = ref(768);
    const vocabulary = ref(50_257);
    const ranks = ref(8);
    const optimizerTensors = ref(2);
    const precision = ref('f32');
    const explained = ref<keyof typeof strategies>('fsdp');

    const plans = computed(() => {
      const parameters = gptParameters(layers.value, width.value, vocabulary.value);
      const axes = [{ name: 'dp', size: ranks.value }];
      return strategyNames.map((name) => {
        const strategy = strategies[name](precisions[precision.value] ?? {});
        return [name, strategy.plan({ parameters }, axes)] as const;
      });
    });
    const options = computed(() => ({ optimizerTensors: optimizerTensors.value }));
    const rows = computed(() =>
      plans.value.map(([name, plan]) => [name, planMemory(plan, options.value)] as const),
    );
    /** What the library prints; a text that few readers unfold is made for those who do. */
    const explanation = ref('');
    const isUnfolded = ref(false);
    watch([plans, options, explained, isUnfolded], async () => {
      if (!isUnfolded.value) return;
      const { explain } = await import('./plan-text.ts');
      const plan = plans.value.find(([name]) => name === explained.value)?.[1];
      explanation.value = plan === undefined ? '' : explain(plan, options.value);
    });
    const elements = computed(() =>
      gptParameters(layers.value, width.value, vocabulary.value).reduce(
        (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
        0,
      ),
    );

    return (): VNode => {
      const most = Math.max(...rows.value.map(([, { statesBytes }]) => statesBytes));
      return explorer('Memory', [
        h('div', { class: 'controls' }, [
          slider('Layers', layers, { min: 1, max: 96 }),
          slider('Width', width, { min: 64, max: 12_288, step: 64 }),
          choice('Vocabulary', vocabulary, {
            '256 (bytes)': 256,
            '50,257 (GPT-2)': 50_257,
            '128,256 (Llama 3)': 128_256,
          }),
          choice('Ranks', ranks, [1, 2, 4, 8, 16, 64, 256]),
          choice('Optimizer', optimizerTensors, optimizers),
          choice('Precision', precision, precisionNames),
        ]),
        spoken(
          `${Number((elements.value / 1e6).toPrecision(3))} million parameters, ${precision.value}. ${rows.value
            .map(([name, { statesBytes }]) => `${name} ${bytesText(statesBytes)}`)
            .join(', ')} a rank.`,
        ),
        h(
          'div',
          { class: 'bars', 'aria-hidden': 'true' },
          rows.value.map(([name, memory]) =>
            h('div', { class: 'bar' }, [
              h('span', name),
              h(
                'div',
                parts.map(([title, key, color]) =>
                  h('i', {
                    title,
                    style: { width: `${(100 * memory[key]) / most}%`, background: color },
                  }),
                ),
              ),
            ]),
          ),
        ),
        h(
          'p',
          { class: 'legend' },
          parts.map(([title, , color]) =>
            h('span', [h('i', { style: { background: color } }), title]),
          ),
        ),
        table(
          'What a rank keeps between two steps',
          [
            { title: 'strategy' },
            ...parts.map(([title]) => ({ title, isNumber: true })),
            { title: 'sum', isNumber: true },
            { title: 'formula' },
          ],
          rows.value.map(([name, memory]) => [
            name,
            ...parts.map(([, key]) => bytesText(memory[key])),
            bytesText(memory.statesBytes),
            memory.formula?.text ?? '–',
          ]),
        ),
        h('details', { onToggle: () => (isUnfolded.value = true) }, [
          h('summary', 'What explain prints of a plan'),
          h('div', { class: 'controls' }, [choice('Plan', explained, strategyNames)]),
          h(
            'pre',
            { class: 'scroller', tabindex: 0, 'aria-label': 'What explain prints' },
            explanation.value,
          ),
        ]),
        h('p', [
          'Activations come on top. ',
          h('code', 'explain'),
          ' counts those of your model; a strategy does not change them.',
        ]),
      ]);
    };
  },
});
