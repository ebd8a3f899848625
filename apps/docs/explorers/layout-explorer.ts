import {
  formatRedistribution,
  layoutOf,
  planRedistribution,
  visualizeSharding,
  type RedistributionPlan,
} from '@shardwise/strategies';
import type { Layout } from '@shardwise/core';
import { computed, defineComponent, h, ref, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { bytesText } from './quantities.ts';

/** By what a reader chooses: which axes shard dim 0 and dim 1, and over which it is a partial sum. */
const layouts: Readonly<Record<string, Layout>> = {
  'the same everywhere': layoutOf([null, null]),
  'rows over dp': layoutOf(['dp', null]),
  'columns over tp': layoutOf([null, 'tp']),
  'rows over tp': layoutOf(['tp', null]),
  'rows over dp, columns over tp': layoutOf(['dp', 'tp']),
  'rows over dp and tp': layoutOf([['dp', 'tp'], null]),
  'partial sums over tp': layoutOf([null, null], ['tp']),
  'rows over dp, partial sums over tp': layoutOf(['dp', null], ['tp']),
};
const names = Object.keys(layouts);

type Outcome =
  | { readonly plan: RedistributionPlan; readonly before: string; readonly after: string }
  | { readonly problem: string };

/** Which rank has what of a matrix, and what it costs to have it lie otherwise. */
export const LayoutExplorer = defineComponent({
  name: 'LayoutExplorer',
  setup() {
    const dp = ref(2);
    const tp = ref(2);
    const rows = ref(8);
    const columns = ref(6);
    const from = ref('rows over dp, columns over tp');
    const to = ref('rows over dp');

    const outcome = computed((): Outcome => {
      const axes = [
        { name: 'dp', size: dp.value },
        { name: 'tp', size: tp.value },
      ];
      const shape = [rows.value, columns.value];
      const [source, target] = [layouts[from.value], layouts[to.value]];
      try {
        if (source === undefined || target === undefined) return { problem: 'No such layout' };
        return {
          plan: planRedistribution(source, target, shape, axes),
          before: visualizeSharding(source, shape, axes),
          after: visualizeSharding(target, shape, axes),
        };
      } catch (error) {
        return { problem: error instanceof Error ? error.message : String(error) };
      }
    });

    return (): VNode => {
      const shown = outcome.value;
      return explorer('Meshes and layouts', [
        h('div', { class: 'controls' }, [
          slider('dp', dp, { min: 1, max: 4 }, ' ranks'),
          slider('tp', tp, { min: 1, max: 4 }, ' ranks'),
          slider('Rows', rows, { min: 1, max: 16 }),
          slider('Columns', columns, { min: 1, max: 16 }),
          choice('From', from, names),
          choice('To', to, names),
        ]),
        ...('problem' in shown
          ? [h('p', { class: 'problem', role: 'alert' }, shown.problem)]
          : [
              spoken(
                shown.plan.steps.length === 0
                  ? 'The two layouts are the same: nothing is sent.'
                  : `${shown.plan.steps.length} steps, a rank receives ${bytesText(shown.plan.bytes)}.`,
              ),
              h('div', { class: 'two' }, [
                picture('From', shown.before),
                picture('To', shown.after),
              ]),
              table(
                'The way',
                [{ title: 'step' }, { title: 'bytes received by a rank', isNumber: true }],
                formatRedistribution(shown.plan)
                  .split('\n')
                  .slice(1)
                  .map((line, index) => [
                    line.trim().replace(/: \d+ bytes$/, ''),
                    bytesText(shown.plan.steps[index]?.bytes ?? 0),
                  ]),
              ),
            ]),
      ]);
    };
  },
});

function picture(title: string, text: string): VNode {
  return h('figure', [
    h('figcaption', title),
    h(
      'pre',
      { class: 'scroller', tabindex: 0, 'aria-label': `Which rank has what: ${title}` },
      text,
    ),
  ]);
}
