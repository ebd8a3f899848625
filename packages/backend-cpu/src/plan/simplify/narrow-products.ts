import {
  inputAt,
  type CpuInstruction,
  type InstructionMap,
  valueAt,
} from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';
import {
  type GroupedInstruction,
  isNarrowProduct,
  isProduct,
  isGroupedInstruction,
} from '../../program/product-instructions.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/** Turns a product of f32 values that were cast from bf16 into a product of the bf16 values, with sums in f32. */
export function narrowOperands(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (!isProduct(instruction) || instruction.dtype !== 'f32') return instruction;
  const [a, b] = [0, 1].map((index) => narrowed(inputAt(instruction, index), rewriter));
  if (a === undefined || b === undefined) return instruction;
  return { ...instruction, inputs: [a, b, ...instruction.inputs.slice(2)] };
}

/** Returns the bf16 value that an f32 value was cast from. */
function narrowed(id: number, rewriter: Rewriter): number | undefined {
  const producer = rewriter.producer(id);
  if (producer?.op !== 'cast') return undefined;
  const input = inputAt(producer, 0);
  return valueAt(rewriter.values, input).dtype === 'bf16' ? input : undefined;
}

/**
 * Lets a product of bf16 values round its sums to bf16 itself, if they are only cast to bf16 and have no other reader.
 */
export function narrowResult(
  instruction: CpuInstruction,
  uses: Uses,
  rewriter: Rewriter,
): CpuInstruction {
  if (instruction.op !== 'cast' || instruction.dtype !== 'bf16') return instruction;
  const input = inputAt(instruction, 0);
  const product = rewriter.producer(input);
  if (product === undefined || uses.get(input) !== 1) return instruction;
  if (!isNarrowProduct(product, rewriter.values) || product.dtype !== 'f32') return instruction;
  return { ...product, dtype: 'bf16', output: instruction.output };
}

/**
 * If a program only returns the f32 values of a product that rounds to bf16, lets the product store these f32 values
 * itself. No bf16 values are stored then.
 */
export function widenResult(
  instruction: CpuInstruction,
  uses: Uses,
  outputs: ReadonlySet<number>,
  rewriter: Rewriter,
): CpuInstruction {
  if (instruction.op !== 'cast' || instruction.dtype !== 'f32' || !outputs.has(instruction.output))
    return instruction;
  const input = inputAt(instruction, 0);
  const product = rewriter.producer(input);
  if (product === undefined || uses.get(input) !== 1) return instruction;
  if (!isNarrowProduct(product, rewriter.values) || product.dtype !== 'bf16') return instruction;
  return rounding(product, instruction.output);
}

/** The product with an f32 result whose values are rounded to the precision of bf16. */
function rounding(
  product: InstructionMap['matmul'] | GroupedInstruction,
  output: number,
): CpuInstruction {
  switch (product.op) {
    case 'matmul':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    case 'groupedMatmul':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    case 'groupedMatmulWeight':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    default:
      return product satisfies never;
  }
}

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
