import type { StageCosts } from './schedule-costs.ts';

/**
 * Returns the costs of a stage if it is the first one. It computes no gradients of its inputs, so its whole backward
 * pass counts as weight gradient. For it the stage keeps all activations and the gradient that it receives, of
 * `outputBytes` bytes.
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
