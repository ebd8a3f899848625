import {
  formatRedistribution,
  layoutOf,
  planRedistribution,
  visualizeSharding,
  type RedistributionPlan,
} from '@shardwise/strategies';
import type { Layout, MeshAxis } from '@shardwise/core';
import { dtypes, elementCount, localShape } from '@shardwise/core/extend';
import { computed, defineComponent, h, ref, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { elementPicture, placeOf } from './element-picture.ts';
import { bytesText } from './quantities.ts';

/**
 * The layouts, under the texts from which a reader chooses. The arguments are the axes that shard dim 0, dim 1 or the
 * elements, and those over which the matrix is a partial sum.
 */
const layouts: Readonly<Record<string, Layout>> = {
  'the same everywhere': layoutOf([null, null]),
  'rows over dp (FSDP)': layoutOf(['dp', null]),
  'elements over dp (ZeRO)': { ...layoutOf([null, null]), flat: ['dp'] },
  'columns over tp, elements over dp': { ...layoutOf([null, 'tp']), flat: ['dp'] },
  'columns over tp': layoutOf([null, 'tp']),
  'rows over tp': layoutOf(['tp', null]),
  'rows over dp, columns over tp': layoutOf(['dp', 'tp']),
  'rows over dp and tp': layoutOf([['dp', 'tp'], null]),
  'partial sums over dp': layoutOf([null, null], ['dp']),
  'partial sums over tp': layoutOf([null, null], ['tp']),
  'rows over dp, partial sums over tp': layoutOf(['dp', null], ['tp']),
};
const names = Object.keys(layouts);

type Outcome =
  | {
      readonly plan: RedistributionPlan;
      readonly before: string;
      readonly after: string;
      /** The number of elements of each rank before and after, by rank. */
      readonly elements: readonly (readonly [before: number, after: number])[];
    }
  | { readonly problem: string };

/** Shows which rank has which part of a matrix, and what it costs to redistribute it. */
export const LayoutExplorer = defineComponent({
  name: 'LayoutExplorer',
  setup() {
    const dp = ref(2);
    const tp = ref(2);
    const rows = ref(8);
    const columns = ref(6);
    const from = ref('rows over dp, columns over tp');
    const to = ref('rows over dp (FSDP)');

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
          before: pictureOf(source, shape, axes),
          after: pictureOf(target, shape, axes),
          elements: Array.from({ length: dp.value * tp.value }, (_, rank) => {
            const place = placeOf(rank, axes);
            return [
              elementCount(localShape(shape, source, place)),
              elementCount(localShape(shape, target, place)),
            ] as const;
          }),
        };
      } catch (error) {
        return { problem: error instanceof Error ? error.message : String(error) };
      }
    });

    return (): VNode => {
      const shown = outcome.value;
      return explorer('Meshes and layouts', [
        h('div', { class: 'controls' }, [
          slider('dp', dp, { min: 1, max: 4 }, 'ranks'),
          slider('tp', tp, { min: 1, max: 4 }, 'ranks'),
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
                  : `${shown.plan.steps.length} ${shown.plan.steps.length === 1 ? 'step' : 'steps'}, a rank receives ${bytesText(shown.plan.bytes)}.`,
              ),
              h('div', { class: 'two' }, [
                picture('From', shown.before),
                picture('To', shown.after),
              ]),
              sharesTable(shown.elements),
              table(
                'The way',
                [{ title: 'step' }, { title: 'a rank receives', isNumber: true }],
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

/** Draws blocks if dims are shared out, and otherwise each element. */
function pictureOf(layout: Layout, shape: readonly number[], axes: readonly MeshAxis[]): string {
  return layout.flat === undefined
    ? visualizeSharding(layout, shape, axes)
    : elementPicture(layout, shape, axes);
}

/** Lists the elements of each rank. Some ranks have fewer elements, or none, if shares are uneven. */
function sharesTable(elements: readonly (readonly [before: number, after: number])[]): VNode {
  const bytes = (count: number): string => bytesText(count * dtypes.f32.bytes);
  return table(
    'What each rank has',
    [
      { title: 'rank' },
      { title: 'elements before', isNumber: true },
      { title: 'bytes before', isNumber: true },
      { title: 'elements after', isNumber: true },
      { title: 'bytes after', isNumber: true },
    ],
    elements.map(([before, after], rank) => [
      `rank ${rank}`,
      before,
      bytes(before),
      after,
      bytes(after),
    ]),
  );
}

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
