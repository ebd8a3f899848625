import {
  axisOf,
  axisSize,
  type CollectivePlan,
  currentSession,
  type DimSharding,
  formatAxisLayout,
  LayoutError,
  type Module,
  type ParameterPlan,
  sameAxisLayout,
  synchronously,
  withCollectiveName,
} from '@shardwise/core/extend';
import { fieldsOf, withParametersIn } from '../modules/parameter-fields.ts';
import { range } from '../pipeline-schedule/actions/schedule.ts';
import { runStagesKey } from '../pipeline/run-stages-key.ts';
import type { PlanContext } from '../plan/plan-context.ts';
import { plannedParameters, shardingOf } from '../plan/planned-bytes.ts';
import { type StepKind, stepsOf } from '../plan/step.ts';
import { inLayer } from '../parameters/in-layer.ts';
import { installStyle } from './install-style.ts';
import type { ModuleSpec, ParallelStyle } from './parallel-style.ts';
import { styleCollectives } from './style-collectives.ts';
import { styleShardings } from './style-shardings.ts';
import { wrapMethod } from './wrap-method.ts';

/** The ranks of an axis share the passes of a module by its style, and redistribute activations at its boundary. */
export interface RunLayer {
  readonly axis: string;
  /** The path of the module. */
  readonly module: string;
  readonly style: ParallelStyle;
  /** The names of parameters in the model, by their names within the module. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The number of tokens of a rank's batch, for the bytes. */
  readonly tokens: number;
}

/** The kind of the step `RunLayer`. */
export const runLayer: StepKind<RunLayer> = {
  name: 'runLayer',
  collectives({ axis, module: path, style, parameters, tokens }, plan): readonly CollectivePlan[] {
    if (axisSize(plan.axes, axis) === 1) return [];
    const names = Object.values(parameters);
    const own = plannedParameters(plan, names);
    const cut = new Set(
      own.flatMap((each) => (shardingOf(each, 'parameter', axis) === null ? [] : each.name)),
    );
    const spec = {
      ...moduleSpec(path, parameters, own),
      cut: new Set(Object.keys(parameters).filter((key) => cut.has(parameters[key] ?? key))),
    };
    const { autocast } = plan;
    const module = autocast === undefined ? spec : { ...spec, productDtype: autocast.dtype };
    const [stages] = stepsOf(plan, runStagesKey);
    if (stages === undefined) {
      return styleCollectives(style, module, tokens).map((each) => ({
        ...each,
        axis,
        parameters: names,
      }));
    }
    // In a pipeline, the messages are those of each microbatch, on the rank of the stage.
    const { axis: stageAxis, schedule, rankOfModule, latest } = stages.data;
    const only = { axis: stageAxis, rank: rankOfModule[path] ?? 0 };
    const rows = latest?.rows ?? schedule.microbatches;
    const count = typeof rows === 'number' ? rows : rows.length;
    return range(count).flatMap((microbatch) =>
      styleCollectives(style, module, shareOfTokens(tokens, microbatch, rows)).map(
        ({ redistribution, ...each }) => ({
          ...each,
          axis,
          parameters: names,
          only,
          ...(redistribution === undefined
            ? {}
            : { redistribution: { ...redistribution, microbatch } }),
        }),
      ),
    );
  },
  check(data, context) {
    const { axis, module: path, style } = data;
    style.kind.check?.(moduleOf(data, context), path);
    for (const [name, sharding] of shardingsOf(data, context)) {
      const found = shardingOf(context.plannedOf(name), 'parameter', axis);
      if (found !== null && sameAxisLayout(found, sharding)) continue;
      throw new LayoutError(
        {
          asked: `${style.name}() of '${path}', by which the ranks of '${axis}' have '${name}' as ${formatAxisLayout(sharding)}`,
          found: `the plan gives it to them as ${found === null ? 'invariant' : formatAxisLayout(found)}`,
          todo: 'Change its layout in the plan, or leave the step out',
        },
        { parameter: name, axis },
      );
    }
  },
  apply(data, context) {
    const { axis, module: path, style } = data;
    const module = moduleOf(data, context);
    const name = `the layer '${path}'${context.numbers.suffix(axis)}`;
    installStyle(style, module, axisOf(currentSession().mesh, axis), path);
    const byName = new Map(context.parameters);
    const own = [...shardingsOf(data, context).keys()].flatMap((name) => byName.get(name) ?? []);
    // Strategies that are applied later put others in the same fields.
    const fields = fieldsOf(module, new Set(own));
    for (const method of Object.keys(style.inputs)) {
      wrapMethod(module, method, (inputs, run) =>
        withCollectiveName(name, () =>
          withParametersIn(fields, inLayer, () =>
            synchronously('the forward pass of a layer that ranks shard', () => run(inputs)),
          ),
        ),
      );
    }
  },
};

/**
 * Returns the tokens of a microbatch. They are proportional to its rows in the latest pass. Before the first pass,
 * `rows` is the number of microbatches, and the tokens are divided as rows would be. The result is at least 1.
 */
function shareOfTokens(
  tokens: number,
  microbatch: number,
  rows: readonly number[] | number,
): number {
  if (typeof rows === 'number') {
    return Math.max(1, Math.floor(tokens / rows) + Number(microbatch < tokens % rows));
  }
  const all = rows.reduce((sum, each) => sum + each, 0);
  return Math.max(1, Math.round((tokens * (rows[microbatch] ?? 0)) / Math.max(1, all)));
}

/** Returns how the style shards parameters, by their names in the model. */
function shardingsOf(
  { axis, module, style, parameters }: RunLayer,
  { plan }: PlanContext,
): ReadonlyMap<string, DimSharding> {
  const planned = plannedParameters(plan, Object.values(parameters));
  const spec = moduleSpec(module, parameters, planned);
  const found = styleShardings(style, spec, axisSize(plan.axes, axis));
  return new Map([...found].map(([own, sharding]) => [parameters[own] ?? own, sharding]));
}

function moduleSpec(
  path: string,
  parameters: RunLayer['parameters'],
  planned: readonly ParameterPlan[],
): ModuleSpec {
  const byName = new Map(planned.map((each) => [each.name, each]));
  const own = Object.entries(parameters).flatMap(([name, full]) => {
    const found = byName.get(full);
    return found === undefined ? [] : [[name, found] as const];
  });
  return { path, parameters: new Map(own) };
}

function moduleOf({ module: path, style }: RunLayer, { model }: PlanContext): Module {
  const modules = new Map(model.namedModules());
  const module = modules.get(path);
  if (module !== undefined) return module;
  throw new LayoutError(
    {
      asked: `${style.name}() of '${path}'`,
      found: `no module of this name; there are ${[...modules.keys()].slice(1, 8).join(', ')}, …`,
      todo: 'Name modules of the model; * stands for one name',
    },
    { module: path },
  );
}
