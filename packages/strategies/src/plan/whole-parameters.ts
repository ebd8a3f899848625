import { ConfigError, formatShape, type Parameter } from '@shardwise/core/extend';

/** Throws ConfigError for parameters that were constructed in parts, where a strategy keeps whole ones. */
export function requireWhole(
  asked: string,
  named: readonly (readonly [string, Parameter])[],
): void {
  const part = named.find(([, { initialPart }]) => initialPart !== null);
  if (part === undefined) return;
  const [name, { shape }] = part;
  throw new ConfigError(
    {
      asked,
      found: `parameter ${name} of shape ${formatShape(shape)} was constructed in parts, of which this rank kept one, and the strategy keeps whole parameters`,
      todo: 'Build the model without constructSharded, or share it out with fsdp or zero({ stage: 3 })',
    },
    { parameter: name, shape },
  );
}
