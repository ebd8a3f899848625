import { ConfigError, TensorStateError } from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';

export function dividedModel({ module, sharedAxes }: ModelFacts): ConfigError {
  return new ConfigError(
    {
      asked: `an engine with a ${module.architecture}`,
      found: `a model of which the ranks of ${sharedAxes.join(', ')} have parts`,
      todo: 'Give an engine on each rank a whole model, or use generate() of @shardwise/models',
    },
    { axes: sharedAxes },
  );
}

export function withoutTokenizer(): ConfigError {
  return new ConfigError({
    asked: 'an output of a certain form',
    found: 'an engine without a tokenizer',
    todo: 'Give a tokenizer, which knows the texts of tokens',
  });
}

export function disposed(): TensorStateError {
  return new TensorStateError({
    asked: 'a request',
    found: 'an engine that has been disposed of',
    todo: 'Make another engine',
  });
}

export function otherAdapters({ module }: ModelFacts): ConfigError {
  return new ConfigError({
    asked: `an engine with a ${module.architecture} and adapters`,
    found: 'adapters of another model',
    todo: 'Give what stackAdapters returned for this model',
  });
}

export function unknownAdapter(name: string, names: readonly string[]): ConfigError {
  return new ConfigError(
    {
      asked: `generate with the adapter '${name}'`,
      found: names.length === 0 ? 'an engine without adapters' : `the adapters ${names.join(', ')}`,
      todo: 'Name one of them, or leave it out',
    },
    { adapter: name },
  );
}
