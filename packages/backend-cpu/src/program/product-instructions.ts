import type { ValueType } from '@shardwise/core/spec';
import { inputAt, type CpuInstruction, type InstructionMap, valueAt } from './instruction.ts';

/** Products of rows in groups. Machine code computes them if it computes products at all. */
export type GroupedInstruction =
  | InstructionMap['groupedMatmul']
  | InstructionMap['groupedMatmulWeight'];

export function isGroupedInstruction(
  instruction: CpuInstruction,
): instruction is GroupedInstruction {
  return instruction.op === 'groupedMatmul' || instruction.op === 'groupedMatmulWeight';
}

/** Whether an instruction is a product of bf16 values. Only machine code computes such products. */
export function isNarrowProduct(
  instruction: CpuInstruction,
  values: readonly ValueType[],
): instruction is InstructionMap['matmul'] | GroupedInstruction {
  return isProduct(instruction) && valueAt(values, inputAt(instruction, 0)).dtype === 'bf16';
}

export function isProduct(
  instruction: CpuInstruction,
): instruction is InstructionMap['matmul'] | GroupedInstruction {
  return instruction.op === 'matmul' || isGroupedInstruction(instruction);
}
