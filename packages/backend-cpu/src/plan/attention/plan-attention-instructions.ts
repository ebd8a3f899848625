import { attentionWorkOf } from './attention-work-of.ts';
import type { AttentionPlanning } from './attention-planning.ts';
import { pagedWorkOf } from './paged-work-of.ts';
import { headViews } from './head-views.ts';
import { readStored } from './stored-blocks.ts';
import { gatherGradients } from './gather-gradients.ts';
import { inputAt, type CpuInstruction, valueAt } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';
import {
  type AttentionInstruction,
  isAttentionInstruction,
  isForward,
  fusionKey,
  headInputs,
} from '../../program/attention-instructions.ts';

/** If the attention rounds its weights to bf16, makes it read the bf16 values that its f32 operands were cast from. */
function narrowAttention(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (!isAttentionInstruction(instruction) || instruction.params.rounding !== 'bf16')
    return instruction;
  const count = headInputs[instruction.op];
  const narrow = instruction.inputs.map((id, index) => {
    const producer = index < count ? rewriter.producer(id) : undefined;
    if (producer?.op !== 'cast') return id;
    const input = inputAt(producer, 0);
    return valueAt(rewriter.values, input).dtype === 'bf16' ? input : id;
  });
  return { ...instruction, inputs: narrow };
}

/** If attention's result is only cast to bf16 and has no other reader, makes the attention store bf16. */
function narrowAttentionResult(
  instruction: CpuInstruction,
  uses: Uses,
  rewriter: Rewriter,
): CpuInstruction {
  if (instruction.op !== 'cast' || instruction.dtype !== 'bf16') return instruction;
  const input = inputAt(instruction, 0);
  const made = rewriter.producer(input);
  if (made === undefined || !isAttentionInstruction(made) || uses.get(input) !== 1)
    return instruction;
  if (made.params.rounding !== 'bf16' || made.dtype !== 'f32') return instruction;
  return { ...made, dtype: 'bf16', output: instruction.output };
}

/**
 * Moves the logarithms of sums behind the attention of the same queries and keys that comes last before them, because
 * both are computed together. Attention that comes later may depend on the logarithms. The logarithms get the
 * attention's result as an additional input, although they don't need it, so that they wait for what the attention
 * waits for.
 */
function withLogSums(instructions: readonly CpuInstruction[]): readonly CpuInstruction[] {
  const results = new Map<string, AttentionInstruction>();
  const logSums = new Map<CpuInstruction, CpuInstruction>();
  for (const instruction of instructions) {
    if (instruction.op === 'attention') results.set(fusionKey(instruction), instruction);
    if (instruction.op !== 'attentionLogSumExp') continue;
    const attention = results.get(fusionKey(instruction));
    if (attention !== undefined) {
      const inputs = [...instruction.inputs, attention.output];
      logSums.set(attention, {
        ...instruction,
        params: { ...instruction.params, waits: true },
        inputs,
      });
    }
  }
  const moved = new Set([...logSums.values()].map(({ output }) => output));
  return instructions.flatMap((instruction) => {
    if (moved.has(instruction.output)) return [];
    const logSum = logSums.get(instruction);
    return logSum === undefined ? [instruction] : [instruction, logSum];
  });
}

/** Divides consecutive instructions into lists. One partition computes all instructions of a list. */
function partitionsOfAttention(instructions: readonly CpuInstruction[]): CpuInstruction[][] {
  const partitions: CpuInstruction[][] = [];
  for (const instruction of instructions) {
    const last = partitions.at(-1);
    const before = last?.[0];
    const isTogether =
      before !== undefined &&
      isAttentionInstruction(before) &&
      isAttentionInstruction(instruction) &&
      (instruction.op === 'attentionLogSumExp'
        ? instruction.inputs.includes(before.output)
        : !isForward(instruction) && fusionKey(before) === fusionKey(instruction));
    if (isTogether) last?.push(instruction);
    else partitions.push([instruction]);
  }
  return partitions;
}

/** The functions that compile attention for machine code. */
export const attentionPlanning: AttentionPlanning = {
  narrow: narrowAttention,
  readStored,
  narrowResult: narrowAttentionResult,
  withLogSums,
  partitionsOf: partitionsOfAttention,
  headViews,
  gathered: gatherGradients,
  workOf: attentionWorkOf,
  pagedWorkOf,
};
