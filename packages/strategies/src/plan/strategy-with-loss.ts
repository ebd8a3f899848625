import type { Strategy, Tensor } from '@shardwise/core/extend';

/**
 * A strategy that computes the loss itself. Passes take the targets after the model's inputs, and return the
 * loss.
 */
export interface StrategyWithLoss<
  Output = never,
  Targets extends readonly unknown[] = never,
> extends Strategy {
  /** The loss of the model's output and the targets. Shape: -> []. */
  readonly loss: (output: Output, ...targets: Targets) => Tensor;
}
