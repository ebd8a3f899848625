import { within } from '../../ambient.ts';
import type { HalfDType } from '../../spec/dtype.ts';
import { DTypeError } from '../../spec/errors.ts';
import { fromBytes, toBytes } from '../../tensor/host-data.ts';
import type { ParameterFormat } from '../parameter/parameter-format.ts';
import { roundArray } from './round-array.ts';

/**
 * Parameters made inside `body` whose dtype is not given have this dtype at once (torch.set_default_dtype), one
 * parameter at a time. Buffers, such as running statistics, stay as they are. With `keeps: 'nothing'` the parameters
 * are zeros, for a body whose values are all overwritten afterwards: nothing is converted. Throws ConfigError for a
 * body that returns a promise.
 */
export function constructAs<T>(
  dtype: HalfDType | 'f32',
  { keeps }: { readonly keeps: 'values' | 'nothing' },
  body: () => T,
): T {
  const newParameters = dtype === 'f32' ? null : formatOf(dtype, keeps);
  return within('constructAs', { newParameters }, body);
}

function formatOf(dtype: HalfDType, keeps: 'values' | 'nothing'): ParameterFormat {
  if (keeps === 'nothing') return { dtype, of: (data) => new Uint16Array(data.length) };
  return {
    dtype,
    of(data) {
      const array = { dtype: 'f32', shape: [data.length], bytes: toBytes(data) } as const;
      const rounded = roundArray(array, dtype);
      if (rounded === undefined) throw tooLarge(dtype);
      return fromBytes(rounded.bytes, dtype);
    },
  };
}

function tooLarge(dtype: HalfDType): DTypeError {
  return new DTypeError({
    asked: `a parameter of ${dtype}`,
    found: `initial values that would be infinite in ${dtype}`,
    todo: "Make the model in 'f32', or give its parameters smaller initial values",
  });
}
