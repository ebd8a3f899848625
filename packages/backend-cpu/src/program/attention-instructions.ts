import type { CpuInstruction, InstructionMap } from './instruction.ts';

/** A forward instruction of attention. Machine code computes it block by block, if it can run products and loops. */
type ForwardInstruction = InstructionMap['attention'] | InstructionMap['attentionLogSumExp'];
type BackwardInstruction =
  | InstructionMap['attentionQueryGrad']
  | InstructionMap['attentionKeyGrad']
  | InstructionMap['attentionValueGrad'];
export type AttentionInstruction = ForwardInstruction | BackwardInstruction;

/** Attention whose keys and values lie in blocks. */
export type PagedInstruction = InstructionMap['pagedAttention'];

export function isPagedInstruction(instruction: CpuInstruction): instruction is PagedInstruction {
  return instruction.op === 'pagedAttention';
}

export function isForward(instruction: CpuInstruction): instruction is ForwardInstruction {
  return instruction.op === 'attention' || instruction.op === 'attentionLogSumExp';
}

export function isAttentionInstruction(
  instruction: CpuInstruction,
): instruction is AttentionInstruction {
  return (
    isForward(instruction) ||
    instruction.op === 'attentionQueryGrad' ||
    instruction.op === 'attentionKeyGrad' ||
    instruction.op === 'attentionValueGrad'
  );
}
/**
 * How many of the first inputs of each instruction of attention have heads: queries, keys, values, and gradients of the
 * result.
 */
export const headInputs = {
  attention: 3,
  attentionLogSumExp: 2,
  attentionQueryGrad: 4,
  attentionKeyGrad: 4,
  attentionValueGrad: 4,
} as const;

/**
 * Instructions with the same key are computed together. They have the same inputs and params; `attention` is compared
 * without its values.
 */
export function fusionKey(instruction: AttentionInstruction): string {
  const { causal, scale, rounding } = instruction.params;
  const own =
    instruction.op === 'attention' ? instruction.inputs.toSpliced(2, 1) : instruction.inputs;
  return JSON.stringify([isForward(instruction), causal, scale, rounding, own]);
}
