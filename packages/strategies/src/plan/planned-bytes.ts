import {
  axisLayoutOf,
  axisSize,
  type CollectivePlan,
  type DType,
  dtypes,
  elementCount,
  firstPlace,
  isSharding,
  LayoutError,
  localShape,
  type LowPrecision,
  paddedShape,
  type ParameterPlan,
  type Plan,
  type Shape,
  type Sharding,
  unsharded,
} from '@shardwise/core/extend';
import { type BatchAxes, batchAxesOf } from './axes.ts';

export type State = 'parameter' | 'gradient' | 'optimizer';

/** Returns how an axis shards a state of a parameter, or null if it does not. */
export function shardingOf(planned: ParameterPlan, state: State, axis: string): Sharding | null {
  const own = axisLayoutOf(planned[state], axis);
  return isSharding(own) ? own : null;
}

/** Returns the shape that a rank would have of a parameter if `axis` did not shard it. */
function shapeWithout(plan: Plan, planned: ParameterPlan, axis: string): Shape {
  const layout = unsharded(planned.optimizer, [axis]);
  return localShape(planned.shape, layout, firstPlace(plan.axes));
}

/**
 * Returns the bytes of the parts of all ranks of `axis`, with padding. If the axis does not shard updates, these are
 * the bytes of the whole.
 */
export function bytesOver(plan: Plan, planned: ParameterPlan, axis: string, dtype: DType): number {
  return elementCount(collectedShape(plan, planned, axis)) * dtypes[dtype].bytes;
}

/** Returns the shape of the parts of all ranks of `axis` together. */
export function collectedShape(plan: Plan, planned: ParameterPlan, axis: string): Shape {
  const whole = shapeWithout(plan, planned, axis);
  const sharding = shardingOf(planned, 'optimizer', axis);
  return sharding === null ? whole : paddedShape(whole, sharding, axisSize(plan.axes, axis));
}

/** The parameters of a plan that have these names. Throws LayoutError for a name that the plan does not have. */
export function plannedParameters(plan: Plan, names: readonly string[]): readonly ParameterPlan[] {
  const byName = new Map(plan.parameters.map((planned) => [planned.name, planned]));
  return names.map((name) => {
    const planned = byName.get(name);
    if (planned !== undefined) return planned;
    throw new LayoutError(
      {
        asked: `a plan of '${plan.strategy}' with a step for the parameter '${name}'`,
        found: `the parameters ${[...byName.keys()].slice(0, 6).join(', ')}, …`,
        todo: 'Name one of these',
      },
      { strategy: plan.strategy, parameter: name },
    );
  });
}

/**
 * Returns the broadcasts at the start, in which the ranks of batch axes get rank 0's parameters, as far as rank 0 has
 * them on other axes.
 */
export function startBroadcasts(plan: Plan, over: BatchAxes): readonly CollectivePlan[] {
  const parameters = plan.parameters.map(({ name }) => name);
  const bytes = plan.parameters.reduce(
    (sum, planned) =>
      sum + elementCount(shapeWithout(plan, planned, over.axis)) * dtypes[planned.dtype].bytes,
    0,
  );
  return batchAxesOf(over)
    .filter((axis) => axisSize(plan.axes, axis) > 1)
    .map((axis) => ({ operation: 'broadcast', axis, when: 'start', parameters, bytes }));
}

/** Returns `only` for messages about a parameter that a single rank of an axis has. */
export function ownerOf(planned: ParameterPlan | undefined): Pick<CollectivePlan, 'only'> {
  const only = planned?.parameter.only;
  return only === undefined ? {} : { only };
}

/**
 * How a parameter is stored and sent in fewer bits. Undefined if it is not, as parameters of another dtype than f32, which
 * are frozen.
 */
export function lowPrecisionOf(
  { lowPrecision }: Plan,
  { dtype }: Pick<ParameterPlan, 'dtype'>,
): LowPrecision | undefined {
  return dtype === 'f32' ? lowPrecision : undefined;
}

/** The dtype in which gradients are reduced. */
export function gradientDtypeOf(plan: Plan, planned: ParameterPlan): DType {
  return lowPrecisionOf(plan, planned)?.gradientDtype ?? planned.dtype;
}

/** The dtype in which parameters are gathered for forward and backward. */
export function collectedDtypeOf(plan: Plan, planned: ParameterPlan): DType {
  return lowPrecisionOf(plan, planned)?.parameterDtype ?? planned.dtype;
}
