import type { ValueType } from '@shardwise/core/spec';
import { inputAt, type Step, valueAt } from './instruction.ts';

/** Whether a step casts f16 or bf16 to f32. */
export function isWidening(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || step.dtype !== 'f32') return false;
  const { dtype } = valueAt(values, inputAt(step, 0));
  return dtype === 'f16' || dtype === 'bf16';
}

/** Whether a step casts f32 to f16 or bf16. */
export function isNarrowing(step: Step, values: readonly ValueType[]): boolean {
  if (step.op !== 'cast' || (step.dtype !== 'f16' && step.dtype !== 'bf16')) return false;
  return valueAt(values, inputAt(step, 0)).dtype === 'f32';
}
