import {
  type AxisLayout,
  axisLayoutOf,
  formatAxisLayout,
  isSharding,
  type ParameterPlan,
  type Plan,
  sameAxisLayout,
} from '@shardwise/core/extend';
import { planError } from './plan-error.ts';

/**
 * Throws LayoutError if an axis does not shard the states of a parameter in a possible way. `alike`: parameter,
 * gradient and updates are sharded in the same way. `nested`: the gradient may only be sharded if the updates are, and
 * the parameter only if the gradient is.
 */
export function requireFittingStates(
  plan: Plan,
  planned: ParameterPlan,
  axis: string,
  way: 'alike' | 'nested',
): void {
  const { name } = planned;
  const parameter = axisLayoutOf(planned.parameter, axis);
  const gradient = axisLayoutOf(planned.gradient, axis);
  const update = axisLayoutOf(planned.optimizer, axis);
  const fits = (part: AxisLayout, whole: AxisLayout): boolean =>
    isSharding(part) ? sameAxisLayout(part, whole) : way === 'nested' || !isSharding(whole);
  if (fits(parameter, gradient) && fits(gradient, update)) return;
  const [own, ofGradient, ofUpdate] = [parameter, gradient, update].map(formatAxisLayout);
  throw planError(
    plan,
    {
      asked: `whose ranks of '${axis}' have ${own} of '${name}', ${ofGradient} of its gradient, and update ${ofUpdate}`,
      found: 'states that do not fit each other',
      todo:
        way === 'alike'
          ? 'Divide all three alike'
          : 'Divide gradients only where updates are, and parameters only where gradients are',
    },
    { parameter: name, axis },
  );
}
