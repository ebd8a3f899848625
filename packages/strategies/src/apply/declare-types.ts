import {
  type AxisType,
  checkLossTypes,
  declareAxisTypes,
  type DeclaredAxisTypes,
  type ParameterPlan,
  type Plan,
} from '@shardwise/core/extend';
import { forEachTensor } from '../modules/map-tensors.ts';
import type { PassHooks, PlanContext } from '../plan/plan-context.ts';
import { lowPrecisionOf, shardingOf } from '../plan/planned-bytes.ts';
import { type AxisUse, axisUsesOf, layerAxesOf } from '../plan/step.ts';

/**
 * Declares how parameters and inputs of a model lie on the axes of a plan, so that expressions over them are checked
 * when they are built, on one rank as on many. On an axis whose ranks have different batches, inputs are varying and
 * whole parameters are replicate, unless each rank trains its own. On an axis whose ranks share layers, inputs and parameters that are not cut are
 * invariant, and training needs one loss for all ranks. If these ranks have different batches, inputs are varying, and
 * the parameter's own expression (averageOverBatches) declares how it is used. Parts of parameters are varying on all of these
 * axes.
 */
export function declareTypes({ plan, parameters }: PlanContext): PassHooks {
  const axesThatDivide = (what: AxisUse['divides']): readonly string[] =>
    axisUsesOf(plan).flatMap(({ axis, divides }) => (divides === what ? [axis] : []));
  const batchAxes = axesThatDivide('batch');
  const layerAxes = layerAxesOf(plan);
  const ownBatch = new Set(axesThatDivide('layers and batch'));
  const oneLossOver = layerAxes.filter((axis) => !ownBatch.has(axis));
  const planned = new Map(plan.parameters.map((each) => [each.name, each]));
  const declared = parameters.flatMap(([name, { part }]) => {
    const own = planned.get(name);
    if (own === undefined) return [];
    const types = {
      ...typesOn(batchAxes, (axis) => (isVarying(plan, own, axis) ? 'varying' : 'replicate')),
      ...typesOn(layerAxes, (axis) =>
        shardingOf(own, 'parameter', axis) === null ? 'invariant' : 'varying',
      ),
    };
    declareAxisTypes(part, types, name);
    if (oneLossOver.length > 0) part.checkLosses((loss) => checkLossTypes(loss, oneLossOver));
    return [{ part, types }];
  });
  const inputTypes: readonly (readonly [axis: string, type: AxisType])[] = [
    ...batchAxes.map((axis) => [axis, 'varying'] as const),
    ...layerAxes.map((axis) => [axis, ownBatch.has(axis) ? 'varying' : 'invariant'] as const),
  ];
  return {
    beforeForward(inputs) {
      forEachTensor(inputs, (tensor) => {
        const known = tensor.node.axisTypes?.byAxis;
        const unknown = inputTypes.filter(([axis]) => known?.has(axis) !== true);
        if (unknown.length > 0) declareAxisTypes(tensor, Object.fromEntries(unknown));
      });
    },
    detach() {
      for (const { part, types } of declared) {
        part.checkLosses(null);
        declareAxisTypes(
          part,
          typesOn(Object.keys(types), () => null),
        );
      }
    },
  };
}

/** Whether a rank updates in place only its part of a parameter, or values of its own. */
function isVarying(plan: Plan, planned: ParameterPlan, axis: string): boolean {
  if (planned.parameter.varying?.includes(axis) === true) return true;
  const state = lowPrecisionOf(plan, planned) === undefined ? 'parameter' : 'optimizer';
  return shardingOf(planned, state, axis) !== null;
}

function typesOn(
  axes: readonly string[],
  typeOf: (axis: string) => AxisType | null,
): DeclaredAxisTypes {
  return Object.fromEntries(axes.map((axis) => [axis, typeOf(axis)]));
}
