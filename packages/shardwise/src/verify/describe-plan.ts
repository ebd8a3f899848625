import { axesOfLayout, formatLayout, type Plan } from '@shardwise/core/extend';
import { collectivesOf, stepKinds, stepsOf } from '@shardwise/strategies';
import type { RecordedPlan } from './records.ts';

/** The unit roundoff of each dtype in which passes compute. */
export const roundoffs: Readonly<Record<string, number>> = {
  f32: 2 ** -24,
  f16: 2 ** -11,
  bf16: 2 ** -8,
};

/** Returns what a plan does to each parameter and to outputs of modules, as texts. */
export function describePlan(plan: Plan): RecordedPlan {
  const actions = new Map<string, Set<string>>();
  const modules = new Map<string, Set<string>>();
  const add = (to: Map<string, Set<string>>, name: string, text: string): void => {
    const known = to.get(name) ?? new Set();
    to.set(name, known.add(text));
  };
  for (const { operation, axis, when, parameters, redistribution } of collectivesOf(plan)) {
    const place = when === 'start' ? 'at the start' : `in the ${when} pass`;
    const text = `${operation} over ${axis} ${when === 'optimizer' ? 'in the update' : place}`;
    if (redistribution !== undefined) {
      const { module, from, to } = redistribution;
      add(modules, module, `${from} to ${to} by ${text}`);
    } else for (const name of parameters) add(actions, name, text);
  }
  const [stages] = stepsOf(plan, stepKinds.runStages);
  const dtypes = [
    'f32',
    plan.autocast?.dtype ?? 'f32',
    plan.lowPrecision?.parameterDtype ?? 'f32',
    plan.lowPrecision?.gradientDtype ?? 'f32',
    ...plan.parameters.map(({ dtype }) => dtype),
  ];
  return {
    strategy: plan.strategy,
    batchAxes: axesOfLayout({ dims: plan.batch.dims.slice(0, 1), partial: [] }),
    microbatches: stages?.data.schedule.microbatches ?? 0,
    roundoff: Math.max(...dtypes.map((dtype) => roundoffs[dtype] ?? 0)),
    parameters: Object.fromEntries(
      plan.parameters.map(({ name, parameter }) => [
        name,
        { layout: formatLayout(parameter), actions: [...(actions.get(name) ?? [])] },
      ]),
    ),
    modules: Object.fromEntries([...modules].map(([path, texts]) => [path, [...texts]])),
  };
}
