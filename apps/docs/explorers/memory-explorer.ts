import {
  ddp,
  fsdp,
  planMemory,
  zero,
  type MixedPrecision,
  type PlanMemory,
} from '@shardwise/strategies';
import { computed, defineComponent, h, onMounted, ref, watch, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { gptParameters } from './gpt-parameters.ts';
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
/** The precisions. With bf16 there is an f32 copy of each parameter, which the optimizer updates. */
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
  ['activations', 'activationBytes', 'var(--input-gradient)'],
] as const satisfies readonly (readonly [string, keyof PlanMemory, string])[];

const recomputations = { nothing: false, 'each block': true } as const;
type Recomputation = keyof typeof recomputations;

/**
 * Shows what a rank keeps with each strategy: states between two steps, and activations until the backward pass reads
 * them.
 */
export const MemoryExplorer = defineComponent({
  name: 'MemoryExplorer',
  setup() {
    const layers = ref(12);
    const width = ref(768);
    const vocabulary = ref(50_257);
    const ranks = ref(8);
    const optimizerTensors = ref(2);
    const precision = ref('f32');
    const rowsAtOnce = ref(4);
    const context = ref(1024);
    const recomputed = ref<Recomputation>('nothing');
    const explained = ref<keyof typeof strategies>('fsdp');

    const sizes = computed(() => ({
      layers: layers.value,
      width: width.value,
      vocabulary: vocabulary.value,
      context: context.value,
    }));
    const plans = computed(() => {
      const parameters = gptParameters(sizes.value);
      const axes = [{ name: 'dp', size: ranks.value }];
      return strategyNames.map((name) => {
        const strategy = strategies[name](precisions[precision.value] ?? {});
        return [name, strategy.plan({ parameters }, axes)] as const;
      });
    });
    /**
     * Undefined until the library has counted the activations. The code that counts is loaded after the code that
     * plans.
     */
    const activations = ref<number>();
    const count = async (): Promise<void> => {
      const { countActivations } = await import('./count-activations.ts');
      activations.value = countActivations({
        ...sizes.value,
        rows: rowsAtOnce.value,
        recomputes: recomputations[recomputed.value],
        isHalf: precision.value !== 'f32',
      });
    };
    onMounted(count);
    watch([sizes, rowsAtOnce, recomputed, precision], count);
    const options = computed(() => ({
      optimizerTensors: optimizerTensors.value,
      ...(activations.value === undefined ? {} : { activationBytes: activations.value }),
    }));
    const rows = computed(() =>
      plans.value.map(([name, plan]) => [name, planMemory(plan, options.value)] as const),
    );
    /** The explanation that the library prints. It is made only when the reader unfolds it. */
    const explanation = ref('');
    const isUnfolded = ref(false);
    watch([plans, options, explained, isUnfolded], async () => {
      if (!isUnfolded.value) return;
      const { explain } = await import('./plan-text.ts');
      const plan = plans.value.find(([name]) => name === explained.value)?.[1];
      explanation.value = plan === undefined ? '' : explain(plan, options.value);
    });
    const elements = computed(() =>
      gptParameters(sizes.value).reduce(
        (sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1),
        0,
      ),
    );

    return (): VNode => {
      const most = Math.max(...rows.value.map(([, memory]) => sumOf(memory)));
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
          slider('Rows per microbatch', rowsAtOnce, { min: 1, max: 64 }),
          choice('Tokens a row', context, [128, 512, 1024, 2048, 4096]),
          choice('Recompute', recomputed, Object.keys(recomputations) as Recomputation[]),
        ]),
        spoken(
          `${Number((elements.value / 1e6).toPrecision(3))} million parameters, ${precision.value}. ${rows.value
            .map(([name, memory]) => `${name} ${bytesText(sumOf(memory))}`)
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
                    style: { width: `${(100 * (memory[key] ?? 0)) / most}%`, background: color },
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
          'What a rank keeps',
          [
            { title: 'strategy' },
            ...parts.map(([title]) => ({ title, isNumber: true })),
            { title: 'sum', isNumber: true },
            { title: 'formula' },
          ],
          rows.value.map(([name, memory]) => [
            name,
            ...parts.map(([, key]) => partText(memory[key])),
            bytesText(sumOf(memory)),
            memory.formula?.text ?? '–',
          ]),
        ),
        h(
          'p',
          { class: 'setting' },
          `In the formulas, Ψ is the number of parameters, here ${elements.value.toLocaleString('en')}, and N is the number of ranks, here ${ranks.value}. They give the bytes of parameters, gradients and optimizer states.`,
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
      ]);
    };
  },
});

const sumOf = ({ statesBytes, activationBytes }: PlanMemory): number =>
  statesBytes + (activationBytes ?? 0);

/** Returns a dash for bytes that are not known yet. */
const partText = (bytes: number | null): string => (bytes === null ? '–' : bytesText(bytes));
