import { computed, defineComponent, h, ref, type VNode } from 'vue';
import { choice, explorer, numbersOf, spoken, table } from '../../explorers/controls.ts';
import { rankLabel } from '../rank-mark.ts';
import { useRanks } from '../use-ranks.ts';
import { LAYER_TITLES, type LayerPart, type LayerStep, type LayerTask } from './layer-task.ts';
import { partDrawing } from './part-drawing.ts';

const splits = ['columns, then rows', 'rows, then columns', 'not split'] as const;

/**
 * Computes two layers on ranks of this page, one operation at a time. Shows which rank has what, and when something is
 * sent.
 */
export const LiveLayer = defineComponent({
  name: 'LiveLayer',
  setup() {
    const split = ref<LayerTask['split']>('columns, then rows');
    const size = ref(2);
    const ranks = useRanks<LayerStep>();
    /** The number of steps that the page has allowed. */
    const allowed = ref(0);
    /** The number of steps that all ranks have done. */
    const done = computed(() =>
      Math.min(...(ranks.state.value?.values ?? [[]]).map(({ length }) => length)),
    );
    const latest = computed((): readonly LayerStep[] =>
      (ranks.state.value?.values ?? []).flatMap((own) => own[done.value - 1] ?? []),
    );

    const reset = (): void => {
      ranks.stop();
      ranks.state.value = undefined;
      allowed.value = 0;
    };
    const allow = (steps: number): void => {
      if (ranks.state.value === undefined) {
        const task = { split: split.value } satisfies LayerTask;
        ranks.start(
          size.value,
          task,
          () => new Worker(new URL('./layer-rank.ts', import.meta.url), { type: 'module' }),
        );
      }
      allowed.value = steps;
      ranks.allow(steps);
    };

    const summary = (): string => {
      const [first] = latest.value;
      if (first === undefined) {
        return allowed.value === 0 ? 'Not started.' : 'Ranks are starting.';
      }
      const end =
        first.difference === undefined
          ? ''
          : ` It differs from what one rank computes alone by ${first.difference.toExponential(1)} at most.`;
      return `Step ${first.step} of ${LAYER_TITLES.length}: ${first.title} ${sentText(first)}${end}`;
    };

    return (): VNode => {
      const isStarted = ranks.state.value !== undefined;
      const button = (text: string, disabled: boolean, onClick: () => void): VNode =>
        h(
          'button',
          { type: 'button', disabled, class: { primary: text === 'Step' }, onClick },
          text,
        );
      const isOver = allowed.value >= LAYER_TITLES.length;
      return explorer('Tensor parallelism of two layers', [
        h('fieldset', { class: 'controls', disabled: isStarted }, [
          h('legend', { class: 'visually-hidden' }, 'What is computed'),
          choice('Weights', split, splits),
          choice('Ranks', size, [2, 3, 4]),
        ]),
        h('div', { class: 'buttons' }, [
          button('Step', !ranks.canRun() || isOver || done.value < allowed.value, () =>
            allow(allowed.value + 1),
          ),
          button('All steps', !ranks.canRun() || isOver, () => allow(LAYER_TITLES.length)),
          button('Reset', !isStarted, reset),
        ]),
        ...ranks.notes(),
        ...(ranks.state.value?.ends ?? []).flatMap((end, rank) =>
          end?.error === undefined
            ? []
            : [h('p', { class: 'problem', role: 'alert' }, `rank ${rank}: ${end.error.message}`)],
        ),
        spoken(summary()),
        ...latest.value.map(({ parts }, rank) => rankRow(rank, parts)),
        latest.value.length === 0
          ? null
          : h(
              'p',
              { class: 'setting' },
              'A filled square is a number above 0, an empty one below; the larger the square, the further from 0. A dot is an element that the rank does not have.',
            ),
        latest.value.length === 0 ? null : stepsTable(ranks.state.value?.values[0] ?? []),
        latest.value.length === 0
          ? null
          : numbersOf(
              'Values of the ranks in this step',
              [
                { title: 'rank' },
                { title: 'tensor' },
                { title: 'row', isNumber: true },
                { title: 'column', isNumber: true },
                { title: 'value', isNumber: true },
              ],
              latest.value.flatMap(({ parts }, rank) =>
                parts.flatMap((part) => elementsOf(part).map((row) => [rank, part.name, ...row])),
              ),
            ),
      ]);
    };
  },
});

function rankRow(rank: number, parts: readonly LayerPart[]): VNode {
  return h('div', { class: 'rank-parts' }, [rankLabel(rank), ...parts.map(partDrawing)]);
}

/** Returns the row, the column and the value of each element that a rank has. */
function elementsOf({ rows, columns, values }: LayerPart): readonly (readonly number[])[] {
  const width = columns[1] - columns[0];
  return values.map((value, index) => [
    rows[0] + Math.floor(index / width),
    columns[0] + (index % width),
    value,
  ]);
}

function sentText({ collectives }: LayerStep): string {
  const sent = Object.entries(collectives).map(([name, count]) => `${count} ${name}`);
  return sent.length === 0 ? 'Nothing is sent.' : `The ranks call ${sent.join(' and ')}.`;
}

function stepsTable(steps: readonly LayerStep[]): VNode {
  return table(
    'The steps so far',
    [{ title: 'step' }, { title: 'tensor' }, { title: 'layout' }, { title: 'collectives' }],
    steps.flatMap(({ step, parts, collectives }) =>
      parts.map(({ name, shape, layout }, index) => [
        step,
        `${name} [${shape.join(', ')}]`,
        layout,
        index > 0
          ? ''
          : Object.entries(collectives)
              .map(([kind, count]) => `${count} ${kind}`)
              .join(', ') || 'none',
      ]),
    ),
  );
}
