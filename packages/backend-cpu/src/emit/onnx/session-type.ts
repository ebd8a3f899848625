import type { DType, ValueType } from '@shardwise/core/spec';
import { type CpuInstruction, valueAt } from '../../program/instruction.ts';
import type { TensorType } from './model.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/** f16 and bf16 are moved as integers, because few operators accept them. */
const types: Readonly<Record<DType, TensorType>> = {
  f64: 'f64',
  i64: 'i64',
  f32: 'f32',
  i32: 'i32',
  bool: 'bool',
  u8: 'u8',
  f16: 'u16',
  bf16: 'u16',
};

/** The element type of a value in a session that does not convert it. */
export function sessionType(dtype: DType): TensorType {
  return types[dtype];
}

/**
 * The 16-bit values that a session declares as f16 or bf16, because it converts them itself. They are inputs that it
 * casts to f32, with the expands and reshapes between, and outputs that it casts from f32.
 */
export function convertedValues(
  instructions: readonly CpuInstruction[],
  values: readonly ValueType[],
): ReadonlyMap<number, TensorType> {
  const producers = new Map(instructions.map((instruction) => [instruction.output, instruction]));
  const throughViews = (id: number): number[] => {
    const instruction = producers.get(id);
    const isView = instruction?.op === 'expand' || instruction?.op === 'reshape';
    return [id, ...(isView ? instruction.inputs.flatMap(throughViews) : [])];
  };
  const converted = instructions.flatMap((instruction) => {
    if (isWidening(instruction, values)) return instruction.inputs.flatMap(throughViews);
    return isNarrowing(instruction, values) ? [instruction.output] : [];
  });
  return new Map(converted.map((id) => [id, valueAt(values, id).dtype === 'f16' ? 'f16' : 'bf16']));
}
