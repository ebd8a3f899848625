import type { StageCosts } from './schedule-costs.ts';

/**
 * What the first stage costs: nobody asks it for gradients of its inputs, so that all its backward pass is weight
 * gradients, for which it keeps all activations and the gradient that it is given, of `outputBytes`.
 */
export function ofFirstStage(costs: StageCosts, outputBytes: number): StageCosts {
  const { inputGradientMs, weightGradientMs, activationBytes = 0 } = costs;
  return {
    ...costs,
    inputGradientMs: 0,
    weightGradientMs: inputGradientMs + weightGradientMs,
    weightGradientBytes: activationBytes + outputBytes,
  };
}
