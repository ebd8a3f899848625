import { dtypes, type HostArray, type HostArrays, roundArray } from '@shardwise/core/extend';
import { ConfigError } from 'shardwise';

/** States with all floats in a dtype. Throws ConfigError for a number that would become infinite. */
export function roundedStates(states: HostArrays, dtype: 'f16' | 'bf16' | 'f32'): HostArrays {
  const entries = Object.entries(states).map(([name, array]): readonly [string, HostArray] => {
    if (dtypes[array.dtype].kind !== 'float') return [name, array];
    const rounded = roundArray(array, dtype);
    if (rounded === undefined) throw tooLarge(name, array, dtype);
    return [name, rounded];
  });
  return Object.fromEntries(entries);
}

function tooLarge(name: string, array: HostArray, dtype: string): ConfigError {
  return new ConfigError(
    {
      asked: `save16bitModel with '${name}' in ${dtype}`,
      found: `numbers in ${array.dtype} that would be infinite in ${dtype}`,
      todo: 'Enable bf16 instead of fp16, which has the range of f32',
    },
    { name, dtype },
  );
}
