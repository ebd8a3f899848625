import { ConfigError, TensorStateError } from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';

/** The error of a constraint without texts of tokens. */
export function withoutTokenizer(): ConfigError {
  return new ConfigError({
    asked: 'an output of a certain form',
    found: 'an engine without a tokenizer',
    todo: 'Give a tokenizer, which knows the texts of tokens',
  });
}

/** The error of a request after the end. */
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

/** The error of a request that another rank must be asked. */
export function notFirst(): ConfigError {
  return new ConfigError({
    asked: 'a request, or other weights, for an engine whose model several ranks have parts of',
    found: 'a rank that only follows the first one, or weights of which each rank has a part',
    todo: 'Ask the first rank of the group, and call follow() on the others. Start anew for other weights',
  });
}

/** The error of a request after a step of a divided model has failed on this rank. */
export function groupBroken(cause: unknown): TensorStateError {
  return new TensorStateError(
    {
      asked: 'a request for a model that several ranks have parts of',
      found: 'a step that failed, after which the ranks do not agree any more',
      todo: 'Start all ranks of the group again',
    },
    {},
    { cause },
  );
}
