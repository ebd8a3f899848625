import type { DType, ValueType } from '@shardwise/core/spec';
import { isNarrowing, isWidening } from '../compile/widening.ts';
import { type Step, valueAt } from '../compile/step.ts';
import type { TensorType } from './model.ts';

/** f16 and bf16 are moved as integers: few operators take them as what they are. */
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

/** The element type of a value in a session. */
export function sessionType(dtype: DType): TensorType {
  return types[dtype];
}

/**
 * Inputs of which a session makes f32 values itself, with the expands and reshapes between, and outputs that it makes of f32
 * values: they are declared as what they are.
 */
export function convertedValues(
  steps: readonly Step[],
  values: readonly ValueType[],
): ReadonlyMap<number, TensorType> {
  const producers = new Map(steps.map((step) => [step.output, step]));
  const throughViews = (id: number): number[] => {
    const step = producers.get(id);
    const isView = step?.op === 'expand' || step?.op === 'reshape';
    return [id, ...(isView ? step.inputs.flatMap(throughViews) : [])];
  };
  const converted = steps.flatMap((step) => {
    if (isWidening(step, values)) return step.inputs.flatMap(throughViews);
    return isNarrowing(step, values) ? [step.output] : [];
  });
  return new Map(converted.map((id) => [id, valueAt(values, id).dtype === 'f16' ? 'f16' : 'bf16']));
}
