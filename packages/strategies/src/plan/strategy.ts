import { ConfigError, describeValue, type Strategy, type Tensor } from '@shardwise/core/extend';

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

/** Throws ConfigError for a value that is not a strategy. */
export function requireStrategy(strategy: unknown): void {
  if (typeof strategy === 'object' && strategy !== null && 'plan' in strategy) return;
  const isFunction = typeof strategy === 'function' && strategy.name !== '';
  const name = isFunction ? strategy.name : 'ddp';
  throw new ConfigError(
    {
      asked: `a model to be trained by ${isFunction ? `the function ${name}` : describeValue(strategy)}`,
      found: 'no strategy',
      todo: isFunction
        ? `Call it: parallelize(model, ${name}())`
        : `Give a strategy, such as ddp(), zero({ stage: 2 }) or fsdp()`,
    },
    {},
  );
}
