import { ConfigError, type Parameter } from '@shardwise/core/extend';

const averagedBy = Symbol('averaged by');
const isPart = Symbol('is a part');

/**
 * Throws ConfigError if another strategy has sharded a parameter or averages its gradient. A second strategy would
 * average averages, or parts.
 */
export function requireUnaveraged(
  asked: string,
  named: readonly (readonly [string, Parameter])[],
): void {
  for (const [name, parameter] of named) {
    const other: unknown = Reflect.get(parameter, averagedBy);
    const found = Object.hasOwn(parameter, isPart)
      ? `parameter ${name} is a part already`
      : typeof other === 'string'
        ? `${other} averages the gradient of parameter ${name} already`
        : null;
    if (found === null) continue;
    throw new ConfigError(
      {
        asked,
        found: `${found}: a strategy was applied to this model before`,
        todo: 'Apply one strategy, once, to a model that was just built',
      },
      { parameter: name },
    );
  }
}

/** Marks a parameter of which each rank updates a part. */
export function markPart(parameter: Parameter): void {
  Object.defineProperty(parameter, isPart, { value: true });
}

/** Marks parameters whose gradients `strategy` averages. Returns a function that removes the marks. */
export function markAveraged(strategy: string, parameters: readonly Parameter[]): () => void {
  for (const parameter of parameters) {
    Object.defineProperty(parameter, averagedBy, { value: strategy, configurable: true });
  }
  return () => {
    for (const parameter of parameters) Reflect.deleteProperty(parameter, averagedBy);
  };
}
