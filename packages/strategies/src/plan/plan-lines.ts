import { formatLayout, hashOf, type ParameterPlan } from '@shardwise/core/extend';
import type { ModelPlan } from './step.ts';

/** The longest list that a line shows as it is. Of a longer one it has the length and a hash. */
const MAX_SHOWN = 4;

/**
 * Describes the options of a plan that ranks must have in common, one in a line: the layouts, the precision, and the
 * data of the steps as far as they are numbers, switches, texts and lists of these, and whether they are functions.
 */
export function planLines(plan: ModelPlan): readonly string[] {
  const { parameters, steps, lowPrecision, autocast, sharesDraws = false } = plan;
  const settings = { ...lowPrecision, autocast: autocast?.dtype, sharesDraws };
  return [
    `the precision ${settingsText(settings)}`,
    ...steps.map(({ kind, data }) => `the step ${kind} ${settingsText(data)}`.trimEnd()),
    ...Map.groupBy(parameters, layoutsOf)
      .entries()
      .map(([layouts, those]) => {
        const names = those.map(({ name }) => name);
        return `the layout ${layouts} of ${listText(names)}`;
      }),
    'the end of the plan',
  ];
}

/** The layouts of a parameter, its gradient and its states. */
function layoutsOf({ parameter, gradient, optimizer }: ParameterPlan): string {
  return [parameter, gradient, optimizer].map(formatLayout).join(' | ');
}

function settingsText(data: object): string {
  return Object.entries(data)
    .flatMap(([name, value]) => {
      if (isScalar(value)) return [`${name} ${String(value)}`];
      // What functions do is not compared, but that all ranks have one.
      if (typeof value === 'function') return [`${name} is a function`];
      return isList(value) ? [`${name} ${listText(value)}`] : [];
    })
    .join(', ');
}

function listText(list: readonly unknown[]): string {
  const all = list.join(', ');
  return list.length <= MAX_SHOWN ? `[${all}]` : `${list.length} (${hashOf(all) >>> 0})`;
}

function isScalar(value: unknown): value is number | boolean | string {
  return typeof value === 'number' || typeof value === 'boolean' || typeof value === 'string';
}

function isList(value: unknown): value is readonly (number | boolean | string)[] {
  return Array.isArray(value) && value.every(isScalar);
}
