import type { ValueType } from '@shardwise/core/spec';
import { inputAt, type CpuInstruction, valueAt } from './instruction.ts';

/** Whether an instruction casts f16 or bf16 to f32. */
export function isWidening(instruction: CpuInstruction, values: readonly ValueType[]): boolean {
  if (instruction.op !== 'cast' || instruction.dtype !== 'f32') return false;
  const { dtype } = valueAt(values, inputAt(instruction, 0));
  return dtype === 'f16' || dtype === 'bf16';
}

/** Whether an instruction casts f32 to f16 or bf16. */
export function isNarrowing(instruction: CpuInstruction, values: readonly ValueType[]): boolean {
  if (instruction.op !== 'cast' || (instruction.dtype !== 'f16' && instruction.dtype !== 'bf16'))
    return false;
  return valueAt(values, inputAt(instruction, 0)).dtype === 'f32';
}
