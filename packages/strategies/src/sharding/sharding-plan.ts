import {
  type CollectivePlan,
  type DType,
  dtypes,
  elementCount,
  type Layout,
  LayoutError,
  type MeshAxis,
  type ParameterSpec,
  type Plan,
} from '@shardwise/core/extend';
import { afterForwardOf } from './after-forward.ts';
import { type CutRule, cutOf } from './cut.ts';
import type { ShardingOptions } from './sharded-model.ts';
import type { ShardedStates } from './sharded-states.ts';
import { commonUnit } from './unit-names.ts';

/** What `shardModel` will do, from names and shapes alone. Throws LayoutError for unknown axes. */
export function shardingPlan(
  strategy: string,
  parameters: readonly ParameterSpec[],
  axes: readonly MeshAxis[],
  options: ShardingOptions,
): Plan {
  const { axis, replicas, sharded, rule } = options;
  const size = sizeOf(strategy, axes, axis);
  const replicaCount = replicas === undefined ? 1 : sizeOf(strategy, axes, replicas);
  const paddedElements = (parameter: ParameterSpec): number =>
    elementCount(cutOf(parameter.shape, ruleFor(parameter, rule), size).paddedShape);
  const { parameterDtype, reduceDtype = parameterDtype } = options.mixedPrecision ?? {};
  const sentAs = (operation: string, { dtype }: ParameterSpec): DType => {
    if (operation === 'broadcast') return dtype;
    return (operation === 'allGather' ? parameterDtype : reduceDtype) ?? dtype;
  };
  const bytesOf = (operation: string, list: readonly ParameterSpec[]): number =>
    list.reduce(
      (sum, parameter) =>
        sum + paddedElements(parameter) * dtypes[sentAs(operation, parameter)].bytes,
      0,
    );
  const step = (
    operation: string,
    when: CollectivePlan['when'],
    list: readonly ParameterSpec[],
    over = axis,
  ): CollectivePlan => ({
    operation,
    axis: over,
    when,
    parameters: list.map(({ name }) => name),
    bytes: bytesOf(operation, list) / (operation === 'allReduce' ? size : 1),
  });
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad);
  const collectives: CollectivePlan[] = [];
  if (size * replicaCount > 1) {
    collectives.push(step('broadcast', 'start', parameters));
    const units = [
      ...groupBy(parameters, ({ name, names }) => commonUnit(names ?? [name], options.unitOf)),
    ];
    if (sharded === 'parameters') {
      collectives.push(...units.map(([, list]) => step('allGather', 'forward', list)));
      for (const [unit, list] of units.toReversed()) {
        const after = afterForwardOf(options.reshardAfterForward(unit), axis, size);
        if (after.kind === 'free') collectives.push(step('allGather', 'backward', list));
        if (after.kind === 'share') {
          collectives.push(step('allGather', 'backward', list, after.axis));
        }
      }
    }
    const groups = groupBy(trained.toReversed(), ({ name }) => options.gradientGroupOf(name));
    for (const list of groups.values()) {
      collectives.push(step('reduceScatter', 'backward', list));
      if (replicas !== undefined) collectives.push(step('allReduce', 'backward', list, replicas));
    }
    if (sharded !== 'parameters') collectives.push(step('allGather', 'optimizer', trained));
  }
  return {
    strategy,
    axes,
    batch: { dims: [replicas === undefined ? [axis] : [replicas, axis]], partial: [] },
    parameters: parameters.map((parameter) => ({
      ...parameter,
      ...layoutsOf(parameter, ruleFor(parameter, rule), axis, sharded),
    })),
    collectives: collectives.filter(({ parameters: list }) => list.length > 0),
    ...(parameterDtype === undefined || reduceDtype === undefined
      ? {}
      : { lowPrecision: { parameterDtype, gradientDtype: reduceDtype } }),
  };
}

function ruleFor({ shape }: ParameterSpec, rule: CutRule): CutRule {
  return shape.length === 0 ? 'flat' : rule;
}

function layoutsOf(
  { shape }: ParameterSpec,
  rule: CutRule,
  axis: string,
  sharded: ShardedStates,
): { parameter: Layout; gradient: Layout; optimizer: Layout } {
  const whole: Layout = { dims: shape.map(() => []), partial: [] };
  const part: Layout =
    rule === 'flat'
      ? { ...whole, flat: [axis] }
      : { ...whole, dims: shape.map((_, dim) => (dim === 0 ? [axis] : [])) };
  return {
    parameter: sharded === 'parameters' ? part : whole,
    gradient: sharded === 'optimizer' ? whole : part,
    optimizer: part,
  };
}

function sizeOf(strategy: string, axes: readonly MeshAxis[], axis: string): number {
  const size = axes.find(({ name }) => name === axis)?.size;
  if (size !== undefined) return size;
  throw new LayoutError(
    {
      asked: `${strategy} over the mesh axis '${axis}'`,
      found: `the axes ${axes.map(({ name }) => name).join(', ') || '(none)'}`,
      todo: 'Name an axis of the mesh',
    },
    { axis, axes },
  );
}

function groupBy(
  parameters: readonly ParameterSpec[],
  keyOf: (parameter: ParameterSpec) => string,
): ReadonlyMap<string, ParameterSpec[]> {
  const groups = new Map<string, ParameterSpec[]>();
  for (const parameter of parameters) {
    const key = keyOf(parameter);
    groups.set(key, [...(groups.get(key) ?? []), parameter]);
  }
  return groups;
}
