import { ShardwiseError } from '../../spec/errors.ts';

/** The values of a program that an error is about: one if the error names an instruction, else all. */
export function failedValues(members: readonly number[], error: unknown): readonly number[] {
  const instruction = ShardwiseError.isInstance(error) ? error.fields['instruction'] : undefined;
  const value = typeof instruction === 'number' ? members[instruction] : undefined;
  return value === undefined ? members : [value];
}
