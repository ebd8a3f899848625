import {
  ConfigError,
  describeValue,
  requireVersion,
  type Strategy,
  type Tensor,
} from '@shardwise/core/extend';

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

/** Throws ConfigError for a value that is not a strategy, or one of another version of the interface. */
export function requireStrategy(strategy: Strategy): void {
  const given: unknown = strategy;
  if (typeof given === 'object' && given !== null && 'plan' in given) {
    return requireVersion('a strategy', strategy, 1);
  }
  const isFunction = typeof given === 'function' && given.name !== '';
  const name = isFunction ? given.name : 'ddp';
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
