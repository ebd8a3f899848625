import type { Parameter } from '@shardwise/core/extend';
import { markPart } from '../plan/averaged-parameters.ts';
import { type BatchAxes, batchAxesOf } from '../plan/batch-axes.ts';
import type { PlanContext } from '../plan/plan-context.ts';
import { GradientReducer } from './gradient-reducer.ts';
import { shardedPart } from './sharded-part-of.ts';
import { ShardedParameter } from './sharded-parameter.ts';

export interface ParametersToShard {
  /** The axis over which parameters are sharded, and the axis of replicas. */
  readonly over: BatchAxes;
  /** The names of the parameters whose gradients are reduced together, for each group. */
  readonly groups: readonly (readonly string[])[];
  /** Whether gradients of all trained parameters are reduced in each pass, as zeros where it reaches none. */
  readonly findUnusedParameters: boolean;
  readonly context: PlanContext;
}

/**
 * Replaces the model's parameters by those of which this rank updates a part. Returns the reducer that averages their
 * gradients.
 */
export async function shardParameters(
  named: PlanContext['parameters'],
  { over, groups, findUnusedParameters, context }: ParametersToShard,
): Promise<GradientReducer> {
  const { axis } = over;
  const { lowPrecision } = context.plan;
  const axes = batchAxesOf(over);
  const reducer = new GradientReducer(over, findUnusedParameters);
  const replacements = new Map<Parameter, ShardedParameter>();
  for (const [name, parameter] of named) {
    const planned = context.plannedOf(name);
    const part = await shardedPart(parameter, {
      axis,
      axes,
      planned,
      lowPrecision,
      findUnusedParameters,
      model: context.numbers.suffix(axis),
    });
    const group = groups.findIndex((names) => names.includes(name));
    const replacement = new ShardedParameter(part, parameter, reducer.add(name, part, group));
    markPart(replacement);
    parameter.dispose();
    parameter.initialPart = null;
    replacements.set(parameter, replacement);
    await context.noteSharded(name, replacement);
  }
  context.model.replaceParameters(replacements);
  return reducer;
}
