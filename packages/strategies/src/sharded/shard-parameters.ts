import { axisSize, type Parameter } from '@shardwise/core/extend';
import { standIn, StandInPlacement } from '../parameters/stand-in-placement.ts';
import { markPart } from '../plan/averaged-parameters.ts';
import { batchAxesOf } from '../plan/axes.ts';
import type { NamedParameters, PlanContext, ShardingRequest } from '../plan/plan-context.ts';
import { lowPrecisionOf } from '../plan/planned-bytes.ts';
import { makeHostGroups, reductionOver } from './quantized-reduce.ts';
import { GradientReducer } from './units/gradient-reducer.ts';
import { ShardedReader } from './parts/sharded-reader.ts';
import { shardedPart } from './parts/sharded-part-of.ts';

/**
 * Replaces the model's parameters by those of which this rank updates a part, and calls `onSharded` with each. Returns
 * the reducer that averages their gradients.
 */
export async function shardParameters(
  named: NamedParameters,
  { over, groups, findUnusedParameters }: ShardingRequest,
  context: PlanContext,
  onSharded: (name: string, parameter: Parameter) => Promise<void>,
): Promise<GradientReducer> {
  const { axis } = over;
  const axes = batchAxesOf(over);
  const quantized = reductionOver(context.plan, axis);
  if (quantized !== undefined)
    await makeHostGroups(quantized, axis, axisSize(context.plan.axes, axis));
  const reducer = new GradientReducer(over, findUnusedParameters, quantized);
  const replacements = new Map<Parameter, Parameter>();
  for (const [name, parameter] of named) {
    const planned = context.plannedOf(name);
    const part = await shardedPart(parameter, {
      axis,
      axes,
      planned,
      lowPrecision: lowPrecisionOf(context.plan, planned),
      findUnusedParameters,
      model: context.numbers.suffix(axis),
    });
    const group = groups.findIndex((names) => names.includes(name));
    const reader = new ShardedReader(part, reducer.add(name, part, group));
    const replacement = standIn(parameter, new StandInPlacement(reader, parameter));
    markPart(replacement);
    parameter.dispose();
    parameter.initialPart = null;
    replacements.set(parameter, replacement);
    await onSharded(name, replacement);
  }
  context.model.replaceParameters(replacements);
  return reducer;
}
