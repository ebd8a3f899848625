import { isGroupedInstruction } from '../../program/product-instructions.ts';
import type { Rewriter } from '../../program/rewriter.ts';
import { inputAt, type CpuInstruction } from '../../program/instruction.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/**
 * Lets each product round its input again, if the input is a program input that was rounded to 16 bits. So the forward
 * pass does not keep 16-bit copies of all weights for the backward pass.
 */
export function roundAgain(
  instruction: CpuInstruction,
  inputCount: number,
  rewriter: Rewriter,
): CpuInstruction {
  if (instruction.op !== 'matmul' && !isGroupedInstruction(instruction)) return instruction;
  const inputs = instruction.inputs.map((id) => roundedAgain(id, inputCount, rewriter));
  return { ...instruction, inputs };
}

function roundedAgain(id: number, inputCount: number, rewriter: Rewriter): number {
  const instruction = rewriter.producer(id);
  if (instruction?.op !== 'cast') return id;
  const input = inputAt(instruction, 0);
  const isOfInput = isNarrowing(instruction, rewriter.values) && input < inputCount;
  if (isOfInput) return rewriter.append((output) => ({ ...instruction, output }));
  if (!isWidening(instruction, rewriter.values)) return id;
  const again = roundedAgain(input, inputCount, rewriter);
  if (again === input) return id;
  const inputs = [again];
  return rewriter.append((output) => ({ ...instruction, inputs, output }));
}
