import { ConfigError, describeValue } from '@shardwise/core/extend';

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
