import { defineComponent, h, ref, type PropType, type VNode } from 'vue';
import { bigramEntropy } from '../../../../examples/browser/entropy.ts';
import { choice, slider } from '../../explorers/controls.ts';
import { percentText } from '../../explorers/quantities.ts';
import { useKeptRuns } from '../kept-runs.ts';
import { useLiveRun } from '../use-live-run.ts';
import { firstText } from './first-text.ts';
import {
  CONTEXT,
  DIGITS,
  type LanguageLook,
  type LanguageStrategy,
  type LanguageTask,
  SUMS,
  WINDOWS,
} from './language-task.ts';

const STEPS = { sums: 1000, text: 300 } as const;

/** Trains a small GPT on ranks of this page. It learns to add, or to write like a text that the reader pastes. */
export const LiveLanguage = defineComponent({
  name: 'LiveLanguage',
  props: { task: { type: String as PropType<LanguageTask['kind']>, required: true } },
  setup(props) {
    const text = ref(firstText);
    const size = ref(2);
    const strategy = ref<LanguageStrategy>('ddp');
    const seed = ref(1);
    const bytes = (): Uint8Array => new TextEncoder().encode(text.value);
    const stepTokens = props.task === 'sums' ? SUMS * DIGITS : WINDOWS * CONTEXT;
    const { state, frame } = useLiveRun<LanguageLook>({
      title: props.task === 'sums' ? 'Learning to add' : 'Learning a text',
      size,
      options: () => {
        const own = bytes();
        if (props.task === 'text' && own.length <= CONTEXT) {
          throw new RangeError(`The text has ${own.length} bytes. Paste more than ${CONTEXT}.`);
        }
        const task: LanguageTask =
          props.task === 'sums'
            ? { kind: 'sums', strategy: strategy.value }
            : { kind: 'text', strategy: strategy.value, text: own };
        return {
          size: size.value,
          steps: STEPS[props.task],
          seed: seed.value,
          stepTokens,
          task,
          script: () =>
            new Worker(new URL('./language-rank.ts', import.meta.url), { type: 'module' }),
        };
      },
    });
    const runs = useKeptRuns(state, {
      name: () =>
        `${strategy.value}, ${size.value} ${size.value === 1 ? 'rank' : 'ranks'}, seed ${seed.value}`,
      steps: STEPS[props.task],
      units: { name: 'tokens', perStep: stepTokens },
    });

    return (): VNode =>
      frame(
        [
          choice('Strategy', strategy, ['ddp', 'zero-2', 'fsdp'] as const),
          choice('Ranks', size, [1, 2, 4]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          props.task === 'text'
            ? h('label', { class: 'text' }, [
                h('span', 'The text'),
                h('textarea', {
                  rows: 6,
                  value: text.value,
                  disabled: state.value !== undefined && state.value.status !== 'over',
                  onInput: (event: Event) => {
                    text.value = (event.target as HTMLTextAreaElement).value;
                  },
                }),
              ])
            : null,
          h('div', { class: 'two' }, [
            lookOf(state.value?.ranks[0]?.snapshot?.look),
            runs.chart({
              title: props.task === 'sums' ? 'Loss of a digit' : 'Loss of a byte',
              isLogarithmic: props.task === 'sums',
              yRange: props.task === 'sums' ? [0.001, 10] : [0, 6],
              ...(props.task === 'text'
                ? { mark: { name: 'pairs of bytes', value: bigramEntropy(bytes()) } }
                : {}),
            }),
          ]),
          h('div', { class: 'controls' }, [runs.control()]),
          runs.comparison(),
        ],
      );
  },
});

/** Shows what the model says. It has the same height before the model has been asked. */
function lookOf(look: LanguageLook | undefined): VNode {
  const [title, text] = lookText(look);
  return h('figure', [h('figcaption', title), h('pre', { class: 'sample' }, text)]);
}

function lookText(look: LanguageLook | undefined): readonly [title: string, text: string] {
  if (look === undefined) return ['What it says', 'Nothing yet. It is asked every 50 steps.'];
  if (look.kind === 'text') return ['What it writes', look.sample];
  const answers = look.answers.map(
    ({ question, answer, isRight }) => `${question}${answer} ${isRight ? '✓' : '✗ wrong'}`,
  );
  return [
    `${percentText(look.exact)} of sums that it has never seen are right`,
    answers.join('\n'),
  ];
}
