import { TensorStateError } from '@shardwise/core/extend';

export function disposed(): TensorStateError {
  return new TensorStateError({
    asked: 'a request',
    found: 'an engine that has been disposed of',
    todo: 'Make another engine',
  });
}
