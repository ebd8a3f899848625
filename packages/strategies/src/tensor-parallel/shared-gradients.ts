import { dtypes, elementCount, type ParameterSpec } from '@shardwise/core/extend';
import type { StyleCollective } from './parallel-style.ts';

/**
 * Returns the all-reduces that sum the gradients of parameters which all ranks have, if each rank works on a part of
 * the tokens.
 */
export function sharedGradients(parameters: Iterable<ParameterSpec>): StyleCollective[] {
  return [...parameters]
    .filter(({ requiresGrad }) => requiresGrad)
    .map(({ shape, dtype }) => ({
      operation: 'allReduce',
      when: 'backward',
      bytes: elementCount(shape) * dtypes[dtype].bytes,
    }));
}
