import {
  axisSize,
  type CollectivePlan,
  ConfigError,
  currentSession,
  dtypes,
  elementCount,
  firstPlace,
  formatShape,
  joinLayouts,
  type Layout,
  layoutOver,
  localShape,
  noGrad,
  Parameter,
  type ParameterPlan,
  type Plan,
  shardedAxes,
  shardOf,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { initialContents } from '../parameters/initial-contents.ts';
import { layerParameter, LayerPlacement } from '../parameters/layer-placement.ts';
import { runStagesKey } from '../pipeline/run-stages-key.ts';
import { requireUnaveraged } from '../plan/averaged-parameters.ts';
import { requireFittingStates } from '../plan/fitting-states.ts';
import { ofRankZero, broadcastKeys } from '../plan/from-rank-zero.ts';
import { collectedDtypeOf, ownerOf, shardingOf, startBroadcasts } from '../plan/planned-bytes.ts';
import { requireSameModel } from '../plan/same-model.ts';
import { dividesOnlyBatch, layerAxesOf, Step, type StepKind } from '../plan/step.ts';
import { runLayer } from './run-layer.ts';
import { SameBatch } from './same-batch.ts';

/**
 * The ranks of an axis get rank 0's model: each rank gets the part of every parameter that it computes with, by
 * the layouts of the plan. If they have the same batch, they also get rank 0's keys of random numbers.
 */
export interface ShardLayers {
  readonly axis: string;
  /**
   * `own`: the ranks have different batches, and average the gradients of parameters that are not cut. Default:
   * `shared`.
   */
  readonly batch?: 'shared' | 'own';
  /**
   * Whether another strategy may also share layers over the axis, each the layers that it knows. One step then serves
   * both. Default: false.
   */
  readonly joins?: boolean;
}

/** The kind of the step `ShardLayers`. */
export const shardLayers: StepKind<ShardLayers> = {
  name: 'shardLayers',
  collectives({ axis, batch }, plan): readonly CollectivePlan[] {
    const start = startBroadcasts(plan, { axis });
    return batch === 'own' ? [...start, ...averages(axis, plan)] : start;
  },
  axisUses: ({ axis, batch }) => [
    { axis, divides: batch === 'own' ? 'layers and batch' : 'layers' },
  ],
  merge(outer, inner) {
    const joins = outer.joins ?? inner.joins ?? false;
    const isOne =
      joins && outer.axis === inner.axis && outer.batch !== 'own' && inner.batch !== 'own';
    return isOne ? { data: outer, place: 'outer' } : null;
  },
  precedes: ({ axis }, other) =>
    dividesOnlyBatch(other) ||
    Step.is(other, runStagesKey) ||
    (Step.is(other, runLayer) && other.data.axis === axis),
  check({ axis }, context) {
    for (const [name, { part }] of context.parameters) {
      const planned = context.plannedOf(name);
      requireFittingStates(context.plan, planned, axis, 'alike');
      const isSharded = shardingOf(planned, 'parameter', axis) !== null;
      if (isSharded && part.shardedOver.length > 0) throw shardedBeforeError(name, part);
    }
    requireUnaveraged('tensor parallelism of a model', context.parameters);
  },
  async apply({ axis, batch }, context) {
    const { model, plan } = context;
    const layerAxes = layerAxesOf(plan);
    const named = context.parameters;
    const buffers = model.namedBuffers();
    const group = currentSession().mesh.group(axis);
    await requireSameModel(context, group);
    if (batch !== 'own') await broadcastKeys(group);
    const ranks = { axis, size: group.size };
    const replacements = new Map<Parameter, Parameter>();
    for (const [name, parameter] of named) {
      const sharding = shardingOf(context.plannedOf(name), 'parameter', axis);
      if (sharding === null) broadcastValues(parameter, axis);
      let placed = parameter;
      // The step of an earlier axis may have cut the parameter over all axes.
      if (layerOf(placed) === null && (sharding !== null || batch === 'own')) {
        placed = await placeInLayer(parameter, layoutOfLayers(context.plannedOf(name), layerAxes));
        replacements.set(parameter, placed);
      }
      if (batch === 'own')
        layerOf(placed)?.averageOverBatches({ ...ranks, averages: sharding === null });
    }
    model.replaceParameters(replacements);
    for (const [, buffer] of buffers) broadcastValues(buffer, axis);
    if (batch !== 'own' && group.size > 1) context.hooks.push(new SameBatch(axis));
  },
};

/** Returns the layout of a parameter over all axes whose ranks share layers. */
function layoutOfLayers(planned: ParameterPlan, layerAxes: readonly string[]): Layout {
  const { ndim, axes } = { ndim: planned.shape.length, axes: shardedAxes(planned.parameter) };
  return axes
    .filter((axis) => layerAxes.includes(axis))
    .map((axis) => layoutOver(axis, shardingOf(planned, 'parameter', axis) ?? 'invariant', ndim))
    .reduce(joinLayouts, layoutOver('', 'invariant', ndim));
}

/**
 * Returns the all-reduces of gradients of parameters that all ranks have. There is one for each, when the backward pass
 * reaches it.
 */
function averages(axis: string, plan: Plan): readonly CollectivePlan[] {
  if (axisSize(plan.axes, axis) === 1) return [];
  return plan.parameters
    .filter((each) => each.requiresGrad && shardingOf(each, 'parameter', axis) === null)
    .map((each) => {
      const shape = localShape(each.shape, each.parameter, firstPlace(plan.axes));
      const bytes = elementCount(shape) * dtypes[collectedDtypeOf(plan, each)].bytes;
      return {
        operation: 'allReduce',
        axis,
        when: 'backward',
        parameters: [each.name],
        bytes,
        ...ownerOf(each),
      };
    });
}

/**
 * Gives all ranks rank 0's value. If the tensor was constructed in parts, the ranks have already drawn the same values.
 */
function broadcastValues(tensor: Tensor, axis: string): void {
  if (tensor instanceof Parameter && tensor.initialPart !== null) return;
  const { part } = tensor;
  noGrad(() => part.assign(ofRankZero(part, [axis])));
}

function layerOf({ placement }: Parameter): LayerPlacement | null {
  return placement instanceof LayerPlacement ? placement : null;
}

async function placeInLayer(parameter: Parameter, layout: Layout): Promise<Parameter> {
  const { shape: wholeShape, dtype, requiresGrad, initialPart } = parameter;
  const options = { wholeShape, layout, dtype, requiresGrad };
  if (initialPart !== null) {
    const data = initialContents(initialPart, options);
    const replacement = layerParameter(data, options);
    if (data === null) replacement.initialPart = initialPart;
    return replacement;
  }
  const part = withoutValues(() =>
    noGrad(() => shardOf(ofRankZero(parameter, shardedAxes(layout)), layout)),
  );
  const data = (await part.data()).slice();
  const replacement = layerParameter(data, options);
  part.dispose();
  parameter.dispose();
  return replacement;
}

/** Returns the error for a model of which another strategy has made parts, which cannot be cut. */
function shardedBeforeError(name: string, part: Tensor): ConfigError {
  const { wholeShape: shape, shardedOver } = part;
  return new ConfigError(
    {
      asked: `tensor parallelism of '${name}' of shape ${formatShape(shape)}`,
      found: `a strategy was applied to this model before: this rank has a part of shape ${formatShape(part.shape)}, sharded over '${shardedOver.join("' × '")}'`,
      todo: 'Apply tensor parallelism first, once, as in compose(tensorParallel(styles), fsdp())',
    },
    { parameter: name, shape, shardedOver },
  );
}
